import ActorSockets
import Glibc

/// The words of the command line, as the process has got them.
enum Arguments {
  /// Returns the words after the program's name.
  ///
  /// The names of files and sockets may be any bytes, but Swift's texts are UTF-8. If a word is something else, Swift would replace bytes,
  /// and the program would use another file. So this throws.
  ///
  /// - Throws: `Failure` with the status `usage`.
  static func all() throws(Failure) -> [String] {
    var words: [String] = []
    for index in 1..<max(1, Int(CommandLine.argc)) {
      // SAFETY: argv has `argc` texts that end with a NUL, and no code changes them.
      guard let text = unsafe CommandLine.unsafeArgv[index] else { break }
      let bytes = unsafe UnsafeRawBufferPointer(start: text, count: strlen(text))
      words.append(try word(unsafe Array(bytes)))
    }
    return words
  }

  static func word(_ bytes: [UInt8]) throws(Failure) -> String {
    if let word = String(validating: bytes, as: UTF8.self) { return word }
    let shown = String(decoding: bytes, as: UTF8.self)
    throw .usage(
      "the argument \(AddressError.quote(shown)) is not UTF-8, which the names of files and sockets must be here")
  }
}

/// Returns the value of a variable of the environment: getenv(3); `nil` if it is not set.
func variable(_ name: String) -> String? {
  // SAFETY: no thread of this program changes the environment.
  unsafe getenv(name).map { unsafe String(cString: $0) }
}
