import ActorSockets
import ByteText
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
  private let root: ByteText

  /// Creates a site.
  ///
  /// - Parameter root: The folder.
  /// - Throws: `SocketError` if the folder does not exist.
  init(root: String) throws {
    guard let path = Self.canonical(ByteText(root)), Self.kind(of: path)?.isFolder == true else {
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
      answer = try self.answer(at: SitePath(parsing: ByteText(request.path ?? "")), request.headerFields)
    } catch {
      answer = FileAnswer((error as? RefusedRequest)?.status ?? .internalServerError)
    }
    if request.method == .head { answer.content = .none }
    return answer
  }

  private func answer(at path: SitePath, _ fields: HTTPFields) throws -> FileAnswer {
    let wanted = ByteText(([root] + path.names).map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
    guard var file = Self.canonical(wanted) else { throw Self.refusal }
    guard contains(file) else { throw RefusedRequest(.forbidden) }
    guard let kind = Self.kind(of: file) else { throw Self.refusal }
    if kind.isFolder {
      // Without the slash, links in the page would lead to the folder above.
      if !path.isFolder, !path.names.isEmpty {
        return FileAnswer(.movedPermanently, fields: [.location: path.asFolder])
      }
      file.bytes += "/index.html".utf8
      guard Self.kind(of: file)?.isFile == true else { throw RefusedRequest(.forbidden) }
    } else if path.isFolder {
      throw RefusedRequest(.notFound)
    } else if !kind.isFile {
      // Opening a pipe would wait for its other end.
      throw RefusedRequest(.forbidden)
    }
    return try answer(withFile: file, fields)
  }

  /// Whether a path without symbolic links is in the folder. A link may lead out of it, to a folder whose name only looks like this one.
  private func contains(_ path: ByteText) -> Bool {
    let names = root.parts(at: "/", omitsEmpty: true)
    return path.parts(at: "/", omitsEmpty: true).starts(with: names)
  }

  private func answer(withFile path: ByteText, _ fields: HTTPFields) throws -> FileAnswer {
    // `FileSource` takes the path as a text, which has no form for other bytes.
    guard let name = String(validating: path.bytes, as: UTF8.self) else { throw RefusedRequest(.notFound) }
    let file: FileSource
    do {
      file = try FileSource(path: name)
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
    if fields[.ifNoneMatch].list.contains(where: { $0.equals("*") || $0.equals(tag) || $0.equals("W/" + tag) }) {
      return FileAnswer(head: HTTPResponse(status: .notModified, headerFields: answer), content: .none)
    }
    // A part of another version of the file would be of no use to the client.
    let wanted = ByteText(fields[.ifRange] ?? tag).equals(tag) ? fields[.range] : nil
    switch ByteRange(wanted, size: size) {
    case .unsatisfiable: return FileAnswer(.rangeNotSatisfiable, fields: [.contentRange: "bytes */\(size)"])
    case .part(let range):
      answer[.contentRange] = "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(size)"
      return Self.answer(.partialContent, answer, file, range, path)
    case .whole: return Self.answer(.ok, answer, file, 0..<size, path)
    }
  }

  private static func answer(
    _ status: HTTPResponse.Status, _ fields: HTTPFields, _ file: FileSource, _ range: Range<Int>, _ path: ByteText
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
  private static func canonical(_ path: ByteText) -> ByteText? {
    guard let found = realpath(path.cString, nil) else { return nil }
    defer { free(found) }
    return ByteText(UnsafeRawBufferPointer(start: found, count: strlen(found)))
  }

  private struct Kind {
    var isFolder: Bool
    var isFile: Bool
    var modified: timespec
  }

  /// Returns what is at a path: stat(2).
  private static func kind(of path: ByteText) -> Kind? {
    var status = stat()
    guard stat(path.cString, &status) == 0 else { return nil }
    let type = status.st_mode & S_IFMT
    return Kind(isFolder: type == S_IFDIR, isFile: type == S_IFREG, modified: status.st_mtim)
  }
}

/// The types of files, by the ends of their names.
enum MediaType {
  static func of(_ path: ByteText) -> String {
    path.parts(at: ".").dropFirst().last.flatMap { types[$0.lowercased] } ?? "application/octet-stream"
  }

  private static let types = [
    "html": "text/html; charset=utf-8", "htm": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8", "txt": "text/plain; charset=utf-8", "md": "text/markdown; charset=utf-8",
    "json": "application/json", "xml": "application/xml", "pdf": "application/pdf", "zip": "application/zip",
    "wasm": "application/wasm", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif",
    "svg": "image/svg+xml", "webp": "image/webp", "ico": "image/x-icon", "mp4": "video/mp4", "mp3": "audio/mpeg",
    "woff2": "font/woff2",
  ].reduce(into: [ByteText: String]()) { $0[ByteText($1.key)] = $1.value }
}

extension ByteText {
  /// The bytes as C takes them. They have no NUL.
  fileprivate var cString: [CChar] { bytes.map { CChar(bitPattern: $0) } + [0] }
}
