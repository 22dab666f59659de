/// The names from the directory of a disk to a file. They are bytes, as in the kernel.
package struct DiskPath: Hashable, Sendable {
  package static let longestName = 255
  private static let longest = 4_000

  package let names: [[UInt8]]

  /// With `mayBeEmpty`, the path may be that of the disk's own directory. Throws `.invalidArgument` if it is not a path.
  package init(_ text: String, operation: String, mayBeEmpty: Bool = false) throws(SocketError) {
    let names = text.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).map { Array($0) }
    let isEmpty = text.utf8.isEmpty
    if isEmpty ? !mayBeEmpty : !names.allSatisfy(Self.isName) || text.utf8.count > Self.longest {
      throw .invalid(
        operation, "\(AddressError.quote(text)) is not a path: names that are separated by /, without . and ..")
    }
    self.names = isEmpty ? [] : names
  }

  private static func isName(_ name: [UInt8]) -> Bool {
    !name.isEmpty && name.count <= longestName && !name.contains(0) && !name.elementsEqual(".".utf8)
      && !name.elementsEqual("..".utf8)
  }

  /// The path of the directory that contains a file.
  static func directory(of path: String) -> String {
    guard let end = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "" }
    return String(path[..<end])
  }
}

/// The range of a file that a call reads or writes; throws if it is not one.
package func checkedRange(_ operation: String, at offset: Int, count: Int) throws(SocketError) -> Range<Int> {
  let (end, overflow) = offset.addingReportingOverflow(count)
  if offset < 0 || count < 0 || overflow {
    throw .invalid(operation, "\(count) bytes at \(offset) are not a part of a file")
  }
  return offset..<end
}
