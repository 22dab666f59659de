import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Chains of certificates, good and bad, made on the spot. Our client's verdict is compared with those of `openssl verify`
/// and `openssl s_client`, and each refusal has its own code.
@Suite struct CertificateMatrixTests {
  private static let root = Result {
    let folder = try CertificateFolder(isShared: true)
    _ = try Authority(in: folder, "root")
    return folder
  }

  @Test(
    arguments: [
      MatrixCase.names, MatrixCase.chains, MatrixCase.validity, MatrixCase.purposes, MatrixCase.constraints,
      MatrixCase.strength,
    ].joined().map { $0 })
  func `The verdict is the right one, and that of OpenSSL's commands`(matrixCase: MatrixCase) throws {
    let folder = try CertificateFolder()
    for file in ["root.pem", "root.key"] { try folder.write(file, Self.root.get().read(file)) }
    try matrixCase.make(Authority(in: folder))
    func join(_ names: [String], into file: String) throws {
      try folder.write(file, names.flatMap { try folder.read("\($0).pem") })
    }
    try join(["leaf"] + matrixCase.between, into: "chain.pem")
    try join(matrixCase.between, into: "between.pem")
    try join(matrixCase.roots, into: "roots.pem")
    let server = try ChainServer(chain: folder("chain.pem"), key: folder("leaf.key"))

    var configuration = TLSConfiguration(trustRoots: [.file(folder("roots.pem"))])
    configuration.maximumChainDepth = matrixCase.depth
    configuration.acceptsPartialChains = matrixCase.isPartial
    let verdict = try server.verdict(of: TLSContext(configuration), asking: matrixCase.asked)
    #expect(verdict.error?.code == matrixCase.code, "\(String(describing: verdict.error))")
    #expect(verdict.error == nil || verdict.error?.alert != nil)

    let verifies = try verify(matrixCase, in: folder)
    let connects = try connect(matrixCase, in: folder, to: server)
    var expected = matrixCase.code == nil
    if case .differ = matrixCase.commands { expected.toggle() }
    #expect(verifies.isAccepted == expected, "openssl verify: \(verifies.output)")
    #expect(connects.isAccepted == expected, "openssl s_client: \(connects.output)")
  }

  @Test(arguments: ["middle", "leaf"])
  func `A trust root at which no chain can end is named, with the setting that allows it`(trusted: String) throws {
    let folder = try CertificateFolder()
    try Authority(in: folder, "root").issueChain()
    try folder.write("chain.pem", folder.read("leaf.pem") + folder.read("middle.pem"))
    let server = try ChainServer(chain: folder("chain.pem"), key: folder("leaf.key"))
    let client = try TLSContext(TLSConfiguration(trustRoots: [.file(folder("\(trusted).pem"))]))
    let error = try #require(try server.verdict(of: client, asking: "www.example.org").error)
    #expect(error.code == .unknownAuthority && error.alert == "unknown_ca")
    #expect(error.description.contains("trust root \"CN=\(trusted)\", which is not self-signed"), "\(error)")
    #expect(error.description.contains("acceptsPartialChains"))
    // Another root is not blamed.
    let other = try TLSContext(TLSConfiguration(trustRoots: [.file(folder("root.pem")), .file(folder("middle.pem"))]))
    #expect(try server.verdict(of: other, asking: "www.example.org").error == nil)
  }

  private typealias Verdict = (isAccepted: Bool, output: String)

  private func arguments(_ matrixCase: MatrixCase) throws -> [String] {
    let isAddress = if case .address = try ServerName(parsing: matrixCase.asked) { true } else { false }
    return [
      "-CAfile", "roots.pem", "-no-CApath", "-no-CAstore", "-verify_depth", "\(matrixCase.depth)",
      isAddress ? "-verify_ip" : "-verify_hostname", matrixCase.asked,
    ] + (matrixCase.isPartial ? ["-partial_chain"] : [])
  }

  private func verify(_ matrixCase: MatrixCase, in folder: CertificateFolder) throws -> Verdict {
    let between = matrixCase.between.isEmpty ? [] : ["-untrusted", "between.pem"]
    let (status, output) = try folder.run(
      ["verify", "-purpose", "sslserver", "-auth_level", "2"] + arguments(matrixCase) + between + ["leaf.pem"])
    return (status == 0, output)
  }

  private func connect(
    _ matrixCase: MatrixCase, in folder: CertificateFolder, to server: ChainServer
  ) throws -> Verdict {
    let address = try server.serveOne()
    let (status, output) = try folder.run(
      ["s_client", "-connect", "\(address)", "-verify_return_error", "-brief", "-noservername"]
        + arguments(matrixCase))
    return (status == 0, output)
  }
}
