import ActorSockets
import Glibc
import HTTPTypes

/// The answer to a request.
struct FileAnswer: Sendable {
  enum Content: Sendable {
    case none
    case bytes([UInt8])
    case file(FileSource, Range<Int>)
  }

  var head: HTTPResponse
  var content: Content

  /// Creates an answer with the status as its text.
  init(_ status: HTTPResponse.Status, fields: HTTPFields = [:]) {
    let text = Array("\(status.code) \(status.reasonPhrase)\n".utf8)
    head = HTTPResponse(status: status, headerFields: fields)
    head.headerFields[.contentType] = "text/plain; charset=utf-8"
    head.headerFields[.contentLength] = "\(text.count)"
    content = .bytes(text)
  }

  init(head: HTTPResponse, content: Content) {
    self.head = head
    self.content = content
  }
}

/// The files below a folder, as answers to requests.
struct FileSite: Sendable {
  /// The folder, without symbolic links on the way to it.
  private let root: String

  /// Creates a site.
  ///
  /// - Parameter root: The folder.
  /// - Throws: `SocketError` if the folder does not exist.
  init(root: String) throws {
    guard let path = Self.canonical(root), Self.kind(of: path)?.isFolder == true else {
      throw SocketError(.pathNotFound, operation: "serve", detail: "\(root) is not a folder")
    }
    self.root = path
  }

  /// Answers a request for a file: the file, a part of it, or a status that says why not. It may block while the disk is read.
  func answer(to request: HTTPRequest) -> FileAnswer {
    guard request.method == .get || request.method == .head else {
      return FileAnswer(.methodNotAllowed, fields: [.allow: "GET, HEAD"])
    }
    var answer: FileAnswer
    do {
      answer = try self.answer(at: SitePath(parsing: request.path ?? ""), request.headerFields)
    } catch {
      answer = FileAnswer((error as? RefusedRequest)?.status ?? .internalServerError)
    }
    if request.method == .head { answer.content = .none }
    return answer
  }

  private func answer(at path: SitePath, _ fields: HTTPFields) throws -> FileAnswer {
    let wanted = ([root] + path.names).joined(separator: "/")
    guard var file = Self.canonical(wanted) else { throw Self.refusal }
    // A symbolic link may lead out of the folder.
    guard file == root || file.hasPrefix(root == "/" ? "/" : root + "/") else { throw RefusedRequest(.forbidden) }
    guard let kind = Self.kind(of: file) else { throw Self.refusal }
    if kind.isFolder {
      // Without the slash, links in the page would lead to the folder above.
      if !path.isFolder, !path.names.isEmpty {
        return FileAnswer(.movedPermanently, fields: [.location: path.asFolder])
      }
      file += "/index.html"
      guard Self.kind(of: file)?.isFile == true else { throw RefusedRequest(.forbidden) }
    } else if path.isFolder {
      throw RefusedRequest(.notFound)
    } else if !kind.isFile {
      // Opening a pipe would wait for its other end.
      throw RefusedRequest(.forbidden)
    }
    return try answer(withFile: file, fields)
  }

  private func answer(withFile path: String, _ fields: HTTPFields) throws -> FileAnswer {
    let file: FileSource
    do {
      file = try FileSource(path: path)
    } catch let error as SocketError {
      throw error.errno == EACCES ? RefusedRequest(.forbidden) : RefusedRequest(.notFound)
    }
    let size = try file.count
    guard let modified = Self.kind(of: path)?.modified else { throw RefusedRequest(.notFound) }
    let tag =
      "\"\(String(modified.tv_sec, radix: 36))-\(String(modified.tv_nsec, radix: 36))-\(String(size, radix: 36))\""
    var answer: HTTPFields = [
      .eTag: tag, .lastModified: HTTPDate.text(of: modified.tv_sec), .acceptRanges: "bytes",
    ]
    if let known = fields[.ifNoneMatch],
      known == "*" || known.split(separator: ",").contains(where: { $0.contains(tag) })
    {
      return FileAnswer(head: HTTPResponse(status: .notModified, headerFields: answer), content: .none)
    }
    // A part of another version of the file would be of no use to the client.
    let wanted = fields[.ifRange] ?? tag == tag ? fields[.range] : nil
    switch ByteRange(wanted, size: size) {
    case .unsatisfiable: return FileAnswer(.rangeNotSatisfiable, fields: [.contentRange: "bytes */\(size)"])
    case .part(let range):
      answer[.contentRange] = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(size)"
      return Self.answer(.partialContent, answer, file, range, path)
    case .whole: return Self.answer(.ok, answer, file, 0..<size, path)
    }
  }

  private static func answer(
    _ status: HTTPResponse.Status, _ fields: HTTPFields, _ file: FileSource, _ range: Range<Int>, _ path: String
  ) -> FileAnswer {
    var fields = fields
    fields[.contentType] = MediaType.of(path)
    fields[.contentLength] = "\(range.count)"
    return FileAnswer(head: HTTPResponse(status: status, headerFields: fields), content: .file(file, range))
  }

  // MARK: The file system

  /// Why the last system call has found no file.
  private static var refusal: RefusedRequest { RefusedRequest(errno == EACCES ? .forbidden : .notFound) }

  /// Returns a path without symbolic links; `nil` if there is nothing: realpath(3).
  private static func canonical(_ path: String) -> String? {
    guard let found = realpath(path, nil) else { return nil }
    defer { free(found) }
    return String(cString: found)
  }

  private struct Kind {
    var isFolder: Bool
    var isFile: Bool
    var modified: timespec
  }

  /// Returns what is at a path: stat(2).
  private static func kind(of path: String) -> Kind? {
    var status = stat()
    guard stat(path, &status) == 0 else { return nil }
    let type = status.st_mode & S_IFMT
    return Kind(isFolder: type == S_IFDIR, isFile: type == S_IFREG, modified: status.st_mtim)
  }
}

/// The types of files, by the ends of their names.
enum MediaType {
  static func of(_ path: String) -> String {
    guard let dot = path.lastIndex(of: "."), let type = types[path[path.index(after: dot)...].lowercased()] else {
      return "application/octet-stream"
    }
    return type
  }

  private static let types = [
    "html": "text/html; charset=utf-8", "htm": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8", "txt": "text/plain; charset=utf-8", "md": "text/markdown; charset=utf-8",
    "json": "application/json", "xml": "application/xml", "pdf": "application/pdf", "zip": "application/zip",
    "wasm": "application/wasm", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "svg": "image/svg+xml", "webp": "image/webp", "ico": "image/x-icon", "mp4": "video/mp4", "mp3": "audio/mpeg",
    "woff2": "font/woff2",
  ]
}
