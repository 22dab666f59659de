internal import COpenSSL

/// The encoding of objects as bytes: DER, X.690.
enum DER {
  /// Reads an object.
  ///
  /// - Parameters:
  ///   - bytes: The object.
  ///   - decode: The function of OpenSSL that reads it, which moves the pointer behind what it has read.
  /// - Returns: The object, which the caller owns, or `nil` if the bytes are malformed; and whether nothing follows it. If
  ///   it is `nil`, OpenSSL's errors say why.
  static func read(
    _ bytes: [UInt8], _ decode: (UnsafeMutablePointer<UnsafePointer<UInt8>?>, Int) -> OpaquePointer?
  ) -> (object: OpaquePointer?, isWhole: Bool) {
    OpenSSLErrors.clear()
    // SAFETY: the bytes live during the call, which moves its copy of the pointer within them.
    return unsafe bytes.withUnsafeBufferPointer { buffer in
      var position = buffer.baseAddress
      let object = unsafe decode(&position, buffer.count)
      return unsafe (object, position == buffer.baseAddress.map { unsafe $0 + buffer.count })
    }
  }
}
