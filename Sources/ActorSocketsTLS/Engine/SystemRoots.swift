internal import COpenSSL
internal import SocketSystem

/// Where OpenSSL looks for the certificates that the system's administrator looks after.
///
/// OpenSSL does not say whether there are any: without them it is just that nobody is trusted.
enum SystemRoots {
  /// Whether there is at least one.
  static var exist: Bool {
    if let contents = try? Source.file(file).read(), PEM.isPEM(contents) { return true }
    return directories.contains { directory in
      (try? Directory.names(in: directory))?.contains(where: isHash) ?? false
    }
  }

  /// Both places, for a sentence.
  static var places: String {
    (directories + [file]).map(AddressError.quote).joined(separator: " and ")
  }

  private static var file: String {
    // SAFETY (here and below): OpenSSL's texts are static.
    unsafe place(X509_get_default_cert_file_env(), X509_get_default_cert_file())
  }

  private static var directories: [String] {
    // SAFETY: as above.
    unsafe place(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()).split(separator: ":").map(String.init)
  }

  private static func place(_ variable: UnsafePointer<CChar>?, _ standard: UnsafePointer<CChar>?) -> String {
    // SAFETY: OpenSSL's texts are static.
    let named = unsafe variable.flatMap { unsafe CurrentProcess.variable(String(cString: $0)) }
    return unsafe named ?? standard.map { unsafe String(cString: $0) } ?? ""
  }

  /// Files that OpenSSL finds in a directory are called as the hash of their subject: eight digits, a dot and a number.
  private static func isHash(_ name: String) -> Bool {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 2 && parts[0].count == 8 && parts[0].allSatisfy(\.isHexDigit)
      && parts[1].allSatisfy(\.isNumber)
  }
}
