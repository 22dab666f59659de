internal import COpenSSL

/// OpenSSL's `STACK_OF(X509)`.
@safe final class CertificateStack: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): the stack does not change after `init`.
  let pointer: OpaquePointer

  init(_ certificates: some Sequence<Certificate>) throws(TLSError) {
    // SAFETY: each certificate gets one more reference, which the stack gives back when it is freed.
    guard let stack = unsafe OPENSSL_sk_new_null() else { throw OpenSSLErrors.take().failure() }
    unsafe pointer = stack
    for certificate in certificates {
      unsafe X509_up_ref(certificate.pointer)
      unsafe OPENSSL_sk_push(stack, UnsafeRawPointer(certificate.pointer))
    }
  }

  // SAFETY: only this value has the stack, and `init` took a reference to each of its certificates.
  deinit { unsafe OPENSSL_sk_pop_free(pointer) { unsafe X509_free($0.map { OpaquePointer($0) }) } }
}
