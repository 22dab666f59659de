internal import COpenSSL
internal import SocketSystem

/// OpenSSL does not report that the system has no roots. It then trusts no certificate.
enum SystemRoots {
  /// `nil` if the system has a root.
  static var obstacle: TLSError? {
    do throws(TLSError) {
      if try exist() { return nil }
    } catch {
      return error
    }
    return TLSError(
      .noTrustRoots, detail: "the system has no trust roots in \(paths); install the package ca-certificates")
  }

  /// Throws only if no descriptor is free.
  private static func exist() throws(TLSError) -> Bool {
    if let contents = try Source.file(file).readIfPossible(), PEM.isPEM(contents) { return true }
    for directory in directories {
      do throws(SystemError) {
        if try Directory.names(in: directory).contains(where: isHash) { return true }
      } catch {
        if error.isShortageOfDescriptors { throw Source.file(directory).unreadableDirectory(error) }
      }
    }
    return false
  }

  private static var paths: String {
    (directories + [file]).map(AddressError.quote).joined(separator: " and ")
  }

  private static var file: String {
    // SAFETY (here and below): OpenSSL's texts are static.
    unsafe path(X509_get_default_cert_file_env(), X509_get_default_cert_file())
  }

  private static var directories: [String] {
    // SAFETY: as above.
    unsafe path(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()).parts(at: ":").filter { !$0.isEmpty }
  }

  private static func path(_ variable: UnsafePointer<CChar>?, _ standard: UnsafePointer<CChar>?) -> String {
    // SAFETY: OpenSSL's texts are static.
    let named = unsafe variable.flatMap { unsafe CurrentProcess.variable(String(cString: $0)) }
    return unsafe named ?? standard.map { unsafe String(cString: $0) } ?? ""
  }

  /// Whether OpenSSL would look a file up by this name: the hash of the subject in eight digits, a dot and a number.
  private static func isHash(_ name: String) -> Bool {
    let parts = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    let hexadecimal = Array("0123456789abcdefABCDEF".utf8)
    return parts.count == 2 && parts[0].count == 8 && parts[0].allSatisfy(hexadecimal.contains)
      && parts[1].allSatisfy(hexadecimal.prefix(10).contains)
  }
}
