import ActorSockets
import Glibc

/// Sends a request to a control socket, and a file if there is one.
///
/// - Parameters:
///   - request: The request.
///   - path: The path of the control socket.
///   - file: The path of a file. It is opened here, with the permissions of this process.
/// - Returns: The answer.
/// - Throws: ``SocketError`` if the server does not answer; `CannotOpen` if the file cannot be opened.
func ask(_ request: String, at path: String, passing file: String? = nil) async throws -> String? {
  let control = try await TCPConnection.connect(to: .unix(path: path))
  let bytes = Array("\(request)\n".utf8)
  if let file {
    // The descriptor travels with the first byte, so it is there when the server reads the line.
    try await control.write(bytes, passing: try openForReading(file))
  } else {
    try await control.write(bytes)
  }
  let answer = try await control.read(.line(), timeout: .within(.seconds(10)))
  await control.close()
  return answer
}

/// A file that cannot be opened.
struct CannotOpen: Error {
  let path: String
  let errno: Int32
}

private func openForReading(_ path: String) throws -> OwnedDescriptor {
  // SAFETY: the compiler lends a NUL-terminated copy of the path for the call.
  let number = unsafe open(path, O_RDONLY | O_CLOEXEC)
  if number < 0 { throw CannotOpen(path: path, errno: errno) }
  return OwnedDescriptor(owning: number)
}
