// A run as one HTML file, which needs no network and no other file.
//
// Invariants:
// - The record bounds the size of the file.
// - Texts of the program are in the JSON only, which escapes them, and in the title.

internal import SocketSystem

struct RunPicture {
  let record: RunRecord
  let seed: UInt64
  /// The name of the test.
  let name: String
  /// Why the seed fails.
  let reason: String
  /// Whether the recorded run did what the failed one did; `nil` if that is not known.
  var repeats: Bool?

  /// Lines of a reason that are kept in the file, in bytes.
  private static let longestReason = 20_000

  var html: [UInt8] {
    var bytes = Array("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>".utf8)
    bytes += Self.escaped("seed \(seed): \(RunEvent.cut(name, to: 200))").utf8
    bytes += "</title>\n<style>\n".utf8
    bytes += PackageResources.picture_css
    bytes += "</style>\n".utf8
    bytes += PackageResources.picture_html
    bytes += "<script type=\"application/json\" id=\"record\">".utf8
    bytes += json
    bytes += "</script>\n<script>\n".utf8
    for part in [PackageResources.model_js, PackageResources.view_js, PackageResources.page_js] { bytes += part }
    return bytes + "</script>\n</body>\n</html>\n".utf8
  }

  var json: [UInt8] {
    var json = JSONText()
    json.raw("{\"seed\":\"\(seed)\",\"name\":")
    json.string(RunEvent.cut(name))
    json.raw(",\"reason\":")
    json.string(RunEvent.cut(reason, to: Self.longestReason))
    json.raw(",\"repeats\":\(repeats.map { "\($0)" } ?? "null")")
    json.raw(",\"droppedPackets\":\(record.droppedPackets),\"droppedOthers\":\(record.droppedOthers)")
    json.raw(",\"droppedLater\":\(record.droppedLater)")
    json.raw(",\"keptBytes\":\(PacketView.keptBytes),\"hosts\":")
    json.list(record.hosts.prefix(Self.mostHosts)) { $0.string($1) }
    json.raw(",\"events\":")
    json.list(record.others) { $0.raw($1.json) }
    json.raw(",\"packets\":")
    json.list(record.packets) { $0.raw($1.json) }
    json.raw("}")
    return json.bytes
  }

  private static let mostHosts = 1_000

  /// As text within an element of HTML.
  private static func escaped(_ text: String) -> String {
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "<"): bytes += "&lt;".utf8
      case UInt8(ascii: ">"): bytes += "&gt;".utf8
      case UInt8(ascii: "&"): bytes += "&amp;".utf8
      case 0..<32: bytes.append(UInt8(ascii: " "))
      default: bytes.append(byte)
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  // MARK: The file

  /// For example `A-client-gets-its-answer-seed-7.html`. If a part of the name is missing, a hash of all of it distinguishes the file.
  var fileName: String { fileName(copy: 1) }

  /// For a `copy` above 1, its number is at the end.
  private func fileName(copy: Int) -> String {
    var words: [[UInt8]] = [[]]
    for byte in name.utf8.prefix(Self.longestName) {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"):
        words[words.count - 1].append(byte)
      default: if words.last?.isEmpty == false { words.append([]) }
      }
    }
    var parts = words.filter { !$0.isEmpty }.map { String(decoding: $0, as: UTF8.self) }
    if name.utf8.count > Self.longestName || name.utf8.contains(where: { $0 >= 0x80 }) {
      var hash = TraceHash()
      hash.mix(Array(name.utf8).span)
      parts.append(String(hash.value & 0xffff_ffff, radix: 16))
    }
    parts += ["seed", "\(seed)"]
    if copy > 1 { parts.append("\(copy)") }
    return parts.joined(separator: "-") + ".html"
  }

  private static let longestName = 100
  private static let mostCopies = 1_000
  /// The paths of the pictures that this process has written.
  private static let written = Locked<Set<[UInt8]>>([])

  /// Creates the folder if it is missing. Returns the path. A picture of an earlier process is replaced, and one of this process is not:
  /// several tests may have one name.
  func write(to folder: String) throws(SystemError) -> String {
    try Directory.make(folder)
    for copy in 1...Self.mostCopies {
      let path = folder + "/" + fileName(copy: copy)
      guard Self.written.withLock({ $0.insert(Array(path.utf8)).inserted }) else { continue }
      let file = try OwnedDescriptor.createFile(path, permissions: 0o644)
      if let error = file.write(html, at: 0).error { throw error }
      return path
    }
    throw SystemError(call: "open", errno: Errno.exists)
  }
}
