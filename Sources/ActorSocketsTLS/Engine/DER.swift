internal import COpenSSL

/// X.690.
enum DER {
  /// `decode` is one of OpenSSL's `d2i` functions. Returns an object that the caller owns, or `nil` with the reason in
  /// the error queue; and whether no bytes follow the object.
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
