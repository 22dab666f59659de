internal import COpenSSL

/// OpenSSL's end of the ciphertext: a BIO whose functions are those below (BIO_meth_new(3)).
///
/// SSL owns OpenSSL's BIO, which refers to this object without counting. So this object must live longer than SSL.
@safe final class CiphertextBIO {
  private static let method = try? makeMethod()

  private let bio: OpaquePointer
  // Not checked in other builds, where the checks would be 1,100 instructions of an echo.
  #if !DEBUG && !ACTORSOCKETS_PLAIN
    @safe @exclusivity(unchecked)
  #endif
  var buffers = CiphertextBuffers()

  /// Until `attach(to:)` OpenSSL's BIO has no owner, so the caller attaches it to an `SSL` at once.
  init() throws(TLSError) {
    // SAFETY: the method lives as long as the program, and SSL takes the BIO over.
    guard let bio = unsafe Self.method.flatMap({ unsafe BIO_new($0.pointer) }) else { throw .outOfMemory }
    unsafe self.bio = bio
    // SAFETY: this object lives longer than SSL, which frees the BIO.
    unsafe BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
    unsafe BIO_set_init(bio, 1)
  }

  func attach(to ssl: OpaquePointer) {
    // SAFETY: `ssl` is the caller's and takes the BIO over, which is given away once.
    unsafe SSL_set_bio(ssl, bio, bio)
  }
}

// SAFETY: the method is freed with its object. Its functions capture nothing; OpenSSL calls them with a BIO whose object lives, and with
// memory that is valid for its count during the call.
private func makeMethod() throws(TLSError) -> OpenSSLObject {
  let method = unsafe BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ciphertext")
  let owner = try unsafe OpenSSLObject(method) { unsafe BIO_meth_free($0) }
  unsafe BIO_meth_set_read_ex(method) { bio, memory, count, taken in
    unsafe BIO_clear_flags(bio, retryFlags)
    let result = unsafe object(of: bio).buffers.read(into: UnsafeMutableRawBufferPointer(start: memory, count: count))
    if result < 0 { unsafe BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY) }
    unsafe taken?.pointee = max(0, result)
    return result > 0 ? 1 : Int32(result)
  }
  unsafe BIO_meth_set_write_ex(method) { bio, bytes, count, written in
    unsafe BIO_clear_flags(bio, retryFlags)
    let output = unsafe UnsafeRawBufferPointer(start: bytes, count: count).assumingMemoryBound(to: UInt8.self)
    let taken = unsafe object(of: bio).buffers.write(Span(_unsafeElements: output))
    unsafe written?.pointee = taken
    if taken > 0 { return 1 }
    unsafe BIO_set_flags(bio, BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY)
    return -1
  }
  unsafe BIO_meth_set_ctrl(method) { bio, command, _, _ in
    switch command {
    case BIO_CTRL_FLUSH: return 1
    case BIO_CTRL_EOF:
      let object = unsafe object(of: bio)
      return object.buffers.inputIsOver && !object.buffers.hasInput ? 1 : 0
    default: return 0
    }
  }
  return owner
}

private let retryFlags = BIO_FLAGS_READ | BIO_FLAGS_WRITE | BIO_FLAGS_SHOULD_RETRY

// SAFETY: the data of such a BIO is its object, which lives longer.
private func object(of bio: OpaquePointer?) -> CiphertextBIO {
  unsafe Unmanaged.fromOpaque(BIO_get_data(bio)).takeUnretainedValue()
}

extension TLSError {
  static var outOfMemory: TLSError { TLSError(.internalError, detail: "there is no memory for a TLS connection") }
}
