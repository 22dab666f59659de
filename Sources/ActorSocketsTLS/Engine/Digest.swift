internal import COpenSSL

enum Digest {
  static func sha256(_ bytes: [UInt8]) -> [UInt8] {
    // SAFETY: the memory has room for the hash's 32 bytes, and the input is valid for the call.
    unsafe [UInt8](unsafeUninitializedCapacity: Int(SHA256_DIGEST_LENGTH)) { memory, initialized in
      var count: UInt32 = 0
      let isDone = unsafe EVP_Digest(bytes, bytes.count, memory.baseAddress, &count, EVP_sha256(), nil)
      initialized = isDone == 1 ? Int(count) : 0
    }
  }
}

enum RandomBytes {
  static func make(_ count: Int) throws(TLSError) -> [UInt8] {
    var isDone: Int32 = 0
    // SAFETY: the memory has room for the requested number of bytes.
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { memory, initialized in
      isDone = unsafe RAND_bytes(memory.baseAddress, Int32(clamping: count))
      initialized = isDone == 1 ? count : 0
    }
    guard isDone == 1 else { throw OpenSSLErrors.take().failure() }
    return bytes
  }
}
