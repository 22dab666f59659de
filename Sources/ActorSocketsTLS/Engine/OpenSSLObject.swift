internal import COpenSSL

/// One reference to an object of OpenSSL.
///
/// For objects that do not change any more, so that any thread may use them. OpenSSL counts their references
/// atomically.
@safe final class OpenSSLObject: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the pointer never changes, and its object is only read, which OpenSSL allows on any
  // number of threads.
  let pointer: OpaquePointer
  private let release: @Sendable (OpaquePointer) -> Void

  // SAFETY: the caller gives up one reference, and `release` gives it back, once.
  /// Takes over a reference to `pointer`. Throws if `pointer` is nil because memory ran out.
  init(_ pointer: OpaquePointer?, _ release: @escaping @Sendable (OpaquePointer) -> Void) throws(TLSError) {
    guard let pointer = unsafe pointer else { throw OpenSSLErrors.take().failure() }
    unsafe self.pointer = pointer
    unsafe self.release = release
  }

  // SAFETY: as above.
  deinit { unsafe release(pointer) }
}

/// Returns the elements of a stack of OpenSSL (`STACK_OF`), which keeps them.
// SAFETY: the caller's stack holds pointers and lives during the call.
func elements(of stack: OpaquePointer?) -> [OpaquePointer] {
  guard let stack = unsafe stack else { return unsafe [] }
  var elements = unsafe [OpaquePointer]()
  for index in 0..<max(0, unsafe OPENSSL_sk_num(stack)) {
    if let element = unsafe OPENSSL_sk_value(stack, index) { unsafe elements.append(OpaquePointer(element)) }
  }
  return unsafe elements
}

/// Calls `body` with a BIO that reads `bytes`. Afterwards the error queue holds only the errors of that.
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

/// Returns the bytes that `body` writes into a BIO.
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

/// Returns the bytes that one of OpenSSL's `i2d` functions produces.
///
/// - Parameter encode: Calls the function, with the position where the bytes go, or with `nil` to get their number.
/// - Returns: The bytes; empty if the function fails.
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
