internal import COpenSSL

/// Certificates as a stack of OpenSSL's (`STACK_OF(X509)`).
@safe final class CertificateStack: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): nothing changes it after `init`.
  let pointer: OpaquePointer

  /// A stack that shares these certificates.
  init(_ certificates: some Sequence<Certificate>) throws(TLSError) {
    // SAFETY: each certificate gets one more reference, which the stack gives back when it is freed.
    guard let stack = unsafe OPENSSL_sk_new_null() else { throw OpenSSLErrors.take().failure() }
    unsafe pointer = stack
    for certificate in certificates {
      unsafe X509_up_ref(certificate.pointer)
      unsafe OPENSSL_sk_push(stack, UnsafeRawPointer(certificate.pointer))
    }
  }

  // SAFETY: nobody else has the stack, and each of its certificates was shared by `init`.
  deinit { unsafe OPENSSL_sk_pop_free(pointer) { unsafe X509_free($0.map { OpaquePointer($0) }) } }
}
