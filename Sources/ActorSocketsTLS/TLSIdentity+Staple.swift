internal import SocketSystem

extension TLSIdentity {
  /// The response of OCSP that servers staple to the certificate in handshakes that begin from now on; `nil` for no response.
  ///
  /// A response that has expired is not stapled.
  public var staple: [UInt8]? { stapled.withLock { $0 } }

  /// Replaces the response of OCSP (RFC 6960) that servers staple to the certificate: RFC 6066, section 8, and RFC
  /// 8446, section 4.4.2.1.
  ///
  /// All copies of this identity have the same response, also those in a ``TLSContext``. So a program that renews the
  /// response keeps the identity and calls this before the old response expires. Established connections do not change.
  ///
  /// - Parameter response: The response in DER form, at most 16 KiB; `nil` to staple no response.
  /// - Throws: ``TLSError`` with the code `.stapleInvalid` if the response is malformed, out of date, or about other
  ///   certificates. Then the old one stays. The signature is not checked: clients verify it.
  public func replaceStaple(_ response: [UInt8]?) throws(TLSError) {
    if let response { try check(response) }
    stapled.withLock { $0 = response }
  }

  /// Replaces the response of OCSP by the one in a file, as ``replaceStaple(_:)``.
  ///
  /// - Parameter file: The path of a file with the response in DER form, as `openssl ocsp -respout` writes it.
  /// - Throws: ``TLSError``: `.badFile` if the file cannot be read, and the errors of ``replaceStaple(_:)``. Then the
  ///   old one stays.
  public func replaceStaple(file: String) throws(TLSError) { try replaceStaple(Source.file(file).read()) }

  private func check(_ response: [UInt8]) throws(TLSError) { try Staple(response).check(for: certificate.certificate) }

  var currentStaple: [UInt8]? {
    guard let staple, (try? check(staple)) != nil else { return nil }
    return staple
  }
}
