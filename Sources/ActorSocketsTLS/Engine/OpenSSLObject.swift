internal import COpenSSL

/// A reference to an object that does not change any more, so that any thread may use it. OpenSSL counts the references atomically.
@safe final class OpenSSLObject: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the pointer never changes, and its object is only read, which OpenSSL allows on any
  // number of threads.
  let pointer: OpaquePointer
  private let release: @Sendable (OpaquePointer) -> Void

  // SAFETY: the caller gives up one reference, and `release` gives it back, once.
  /// Throws if `pointer` is nil because memory ran out.
  init(_ pointer: OpaquePointer?, _ release: @escaping @Sendable (OpaquePointer) -> Void) throws(TLSError) {
    guard let pointer = unsafe pointer else { throw OpenSSLErrors.take().failure() }
    unsafe self.pointer = pointer
    unsafe self.release = release
  }

  // SAFETY: as above.
  deinit { unsafe release(pointer) }
}

/// The stack (`STACK_OF`) keeps its elements.
// SAFETY: the caller's stack holds pointers and lives during the call.
func elements(of stack: OpaquePointer?) -> [OpaquePointer] {
  guard let stack = unsafe stack else { return unsafe [] }
  var elements = unsafe [OpaquePointer]()
  for index in 0..<max(0, unsafe OPENSSL_sk_num(stack)) {
    if let element = unsafe OPENSSL_sk_value(stack, index) { unsafe elements.append(OpaquePointer(element)) }
  }
  return unsafe elements
}

/// Afterwards the error queue holds only the errors of `body`.
func withBIO<Result>(
  reading bytes: [UInt8], _ body: (OpaquePointer) throws(TLSError) -> Result
) throws(TLSError) -> Result {
  OpenSSLErrors.clear()
  // SAFETY: the BIO reads from memory that is allocated here and outlives it; the BIO is freed once.
  let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(1, bytes.count))
  defer { unsafe copy.deallocate() }
  _ = unsafe copy.update(fromContentsOf: bytes)
  guard let bio = unsafe BIO_new_mem_buf(copy.baseAddress, Int32(clamping: bytes.count)) else {
    throw OpenSSLErrors.take().failure()
  }
  defer { unsafe BIO_free(bio) }
  return try unsafe body(bio)
}

func written(by body: (OpaquePointer) -> Void) -> [UInt8] {
  // SAFETY: the memory belongs to the BIO and is copied before the BIO is freed.
  guard let bio = unsafe BIO_new(BIO_s_mem()) else { return [] }
  defer { unsafe BIO_free(bio) }
  unsafe body(bio)
  var data: UnsafeMutablePointer<CChar>?
  let count = unsafe copenssl_BIO_get_mem_data(bio, &data)
  guard let data = unsafe data else { return [] }
  return unsafe UnsafeRawBufferPointer(start: data, count: count).map { $0 }
}

/// `encode` calls one of OpenSSL's `i2d` functions: with `nil` to get the number of bytes, then with the position for
/// them. Returns no bytes if the function fails.
func encoded(_ encode: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32) -> [UInt8] {
  // SAFETY: the function writes the number of bytes that it returned, into memory of that size, and moves our copy of
  // the pointer.
  let count = Int(encode(nil))
  guard count > 0 else { return [] }
  return unsafe [UInt8](unsafeUninitializedCapacity: count) { memory, initialized in
    var position = memory.baseAddress
    initialized = max(0, Int(unsafe encode(&position)))
  }
}
