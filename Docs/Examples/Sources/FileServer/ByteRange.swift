import ByteText

/// The part of a file that a request asks for: RFC 9110, section 14.
enum ByteRange: Hashable, Sendable {
  case whole
  case part(Range<Int>)
  /// No byte of the file is in the range.
  case unsatisfiable

  /// Parses the value of a Range field. If it has several ranges, or is not a range of bytes, the answer is the whole file, which is
  /// always valid.
  ///
  /// - Parameters:
  ///   - field: The value; `nil` if the request has no such field.
  ///   - size: The size of the file.
  init(_ field: String?, size: Int) {
    self = .whole
    guard let text = field.map({ ByteText($0) }), text.begins(with: "bytes="), !text.has(",") else { return }
    let ends = text.dropFirst("bytes=".utf8.count).parts(at: "-")
    guard ends.count == 2, ends.allSatisfy({ $0.bytes.allSatisfy { 48...57 ~= $0 } }) else { return }
    // A number that is too large for an integer is behind the end of every file.
    let first = ends[0].isEmpty ? nil : ends[0].number ?? .max
    let last = ends[1].isEmpty ? nil : ends[1].number ?? .max
    switch (first, last) {
    case (let first?, let last?) where first > last: return
    case (let first?, let last):
      let end = last.map { $0 < size ? $0 + 1 : size } ?? size
      self = first < size ? .part(first..<end) : .unsatisfiable
    case (nil, let count?): self = count > 0 && size > 0 ? .part(size - min(size, count)..<size) : .unsatisfiable
    case (nil, nil): return
    }
  }
}
