internal import COpenSSL
internal import SocketSystem

/// Files are read when the context is made, so their errors are reported then. The system's directory is the exception:
/// OpenSSL reads single files from it when it needs them, because there are many and most are never needed.
struct TrustStore {
  let store: OpenSSLObject
  /// SHA-256 hashes of public keys.
  private(set) var pins: Set<[UInt8]> = []
  /// Whether only pins were given, so that they replace authorities.
  private(set) var trustsOnlyPins = false
  /// The roots that were given one by one. Servers name them to clients.
  private(set) var roots: [Certificate] = []
  let trustsSystem: Bool
  /// Those of `roots` at which no chain can end: they are not self-signed, and partial chains are not accepted.
  private var partialAnchors: [Certificate] = []
  /// The error if no certificate could be verified, because there is no root.
  private(set) var missingRoots: TLSError?

  init(_ configuration: TLSConfiguration) throws(TLSError) {
    // SAFETY: the store is new, and its reference is given up.
    store = try unsafe OpenSSLObject(X509_STORE_new()) { unsafe X509_STORE_free($0) }
    var hasSystem = false
    for source in configuration.trustRoots {
      switch source {
      case .system: hasSystem = true
      case .file(let path): roots += try Self.certificates(file: path)
      case .directory(let path): roots += try Self.certificates(directory: path)
      case .pem(let bytes): roots += try Certificate.read(pem: bytes, from: .bytes)
      case .der(let bytes): roots.append(try Certificate.read(der: bytes, from: .bytes))
      case .certificates(let certificates): roots += certificates.map(\.certificate)
      case .publicKeys(let hashes): pins.formUnion(try Self.checked(hashes))
      }
    }
    trustsSystem = hasSystem
    try add(roots)
    if !configuration.acceptsPartialChains { partialAnchors = roots.filter { !$0.isSelfSigned } }
    if hasSystem { try addSystem() }
    trustsOnlyPins = !hasSystem && roots.isEmpty && !pins.isEmpty
    if !hasSystem, roots.isEmpty, pins.isEmpty {
      missingRoots = TLSError(
        .noTrustRoots, detail: "the configuration has no trust roots, so every certificate would be refused")
    } else if hasSystem, roots.isEmpty {
      missingRoots = SystemRoots.obstacle
    }
  }

  func partialAnchor(of chain: [Certificate]) -> Certificate? {
    if partialAnchors.isEmpty { return nil }
    return chain.first { certificate in partialAnchors.contains { $0.isSame(as: certificate) } }
  }

  private func add(_ certificates: [Certificate]) throws(TLSError) {
    for certificate in certificates {
      OpenSSLErrors.clear()
      // SAFETY: both live during the call; the store takes its own reference. A certificate that the store already has
      // is no error.
      guard unsafe X509_STORE_add_cert(store.pointer, certificate.pointer) == 1 else {
        throw OpenSSLErrors.take().failure()
      }
    }
  }

  private func addSystem() throws(TLSError) {
    OpenSSLErrors.clear()
    // SAFETY: the store lives during the call. A missing file or directory leaves an error in the queue, which is
    // discarded.
    guard unsafe X509_STORE_set_default_paths(store.pointer) == 1 else { throw OpenSSLErrors.take().failure() }
    OpenSSLErrors.clear()
  }

  private static func certificates(file path: String) throws(TLSError) -> [Certificate] {
    let source = Source.file(path)
    return try Certificate.read(source.read(), from: source)
  }

  private static func certificates(directory path: String) throws(TLSError) -> [Certificate] {
    let source = Source.file(path)
    guard !path.isEmpty, !path.utf8.contains(0) else { throw source.badFile("is not a path") }
    let names: [String]
    do throws(SystemError) {
      names = try Directory.names(in: path)
    } catch {
      throw source.unreadableDirectory(error)
    }
    var certificates: [Certificate] = []
    for name in names {
      let file = Source.file("\(path)/\(name)")
      // The directory may contain files without certificates.
      guard let contents = try file.readIfPossible(),
        let found = try? Certificate.read(contents, from: file, allowsUnknownBlocks: true)
      else { continue }
      certificates += found
    }
    guard !certificates.isEmpty else {
      throw TLSError(.noTrustRoots, detail: "no file in \(source.name) has a certificate")
    }
    return certificates
  }

  private static func checked(_ hashes: [[UInt8]]) throws(TLSError) -> [[UInt8]] {
    if hashes.isEmpty {
      throw TLSError(.invalidConfiguration, detail: "the list of pinned public keys is empty")
    }
    if let wrong = hashes.first(where: { $0.count != Int(SHA256_DIGEST_LENGTH) }) {
      throw TLSError(
        .invalidConfiguration, detail: "a pin is a SHA-256 hash of 32 bytes, and one of those given has \(wrong.count)")
    }
    return hashes
  }
}
