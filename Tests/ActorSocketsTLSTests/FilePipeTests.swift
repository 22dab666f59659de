import EpollReactor
import Foundation
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.tags(.foundation)) struct FilePipeTests {
  private let folder: CertificateFolder
  private let identity: TLSIdentity

  init() throws {
    folder = try CertificateFolder()
    try folder.openssl("req -x509 -newkey rsa:2048 -nodes -keyout it.key -out it.pem -subj /CN=it")
    identity = try TLSIdentity(certificateFile: folder("it.pem"), keyFile: folder("it.key"))
  }

  private func makePipe(_ name: String) throws -> String {
    // SAFETY: the text is valid for the call.
    guard unsafe mkfifo(folder(name), 0o600) == 0 else { throw SystemError(call: "mkfifo", errno: errno) }
    return folder(name)
  }

  @Test func `Certificates and keys are read from pipes, as a shell makes them from the output of a command`() throws {
    let pipe = Pipe()
    try pipe.fileHandleForWriting.write(contentsOf: folder.read("it.key"))
    try pipe.fileHandleForWriting.close()
    let path = "/dev/fd/\(pipe.fileHandleForReading.fileDescriptor)"
    #expect(try TLSIdentity(certificateFile: folder("it.pem"), keyFile: path).certificate == identity.certificate)
    // It has been read up to its end.
    let error = #expect(throws: TLSError.self) { try TLSIdentity(certificateFile: folder("it.pem"), keyFile: path) }
    #expect(error?.code == .badFile)
  }

  @Test func `A pipe is read piece by piece, also if its writer comes later`() async throws {
    let path = try makePipe("slow")
    let script = "while IFS= read -r line; do printf '%s\\n' \"$line\"; done < it.pem > slow"
    let reading = Task.detached { [folder] in
      try await onThread { try TLSContext(TLSConfiguration(trustRoots: [.file(folder("slow"))])) }
    }
    let writer = try await Program(.bash, ["-c", script], in: folder.url)
    #expect(try await reading.value.trust.roots.count == 1)
    #expect(try await writer.exitStatus() == 0)
    // A revocation list and a PKCS#12 file come the same way.
    try folder.openssl("pkcs12 -export -inkey it.key -in it.pem -out it.p12 -passout pass:open")
    let second = try await Program(.bash, ["-c", "cat it.p12 > slow"], in: folder.url)
    let read = try await onThread { try TLSIdentity(pkcs12File: path) { "open" } }
    #expect(read.certificate == identity.certificate)
    #expect(try await second.exitStatus() == 0)
  }

  @Test func `A pipe that brings more than the limit is refused, and so is one that does not end`() async throws {
    let path = try makePipe("large")
    let writer = try await Program(.bash, ["-c", "head -c 40000000 /dev/zero > large"], in: folder.url)
    let error = try await onThread { #expect(throws: TLSError.self) { try Source.file(path).read() } }
    #expect(error?.code == .badFile && error?.detail.hasSuffix("has more than 32 MiB") == true, "\(error as Any)")
    _ = try await writer.exitStatus()
    // Nothing writes to it.
    let silent = #expect(throws: TLSError.self) { try Source.file(path).read(pipeTimeout: .milliseconds(20)) }
    #expect(silent?.detail.contains("did not end in 0.02 seconds") == true, "\(silent as Any)")
  }

  @Test func `A reactor's thread does not wait for a pipe, and a directory of roots is read without its pipes`()
    async throws
  {
    let path = try makePipe("silent")
    let reactor = Reactor()
    let error = await Task(executorPreference: reactor) {
      #expect(throws: TLSError.self) { try Source.file(path).read() }
    }.value
    #expect(error?.detail.contains("a reactor's thread must not wait") == true, "\(error as Any)")
    #expect(try TLSContext(TLSConfiguration(trustRoots: [.directory(folder(""))])).trust.roots.count == 1)
  }
}
