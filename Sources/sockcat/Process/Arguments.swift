import ActorSockets
import Glibc

enum Arguments {
  /// The names of files and sockets may be any bytes, but Swift's texts are UTF-8. Swift would replace bytes of other
  /// words, and the program would use another file. So this throws.
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

func variable(_ name: String) -> String? {
  // SAFETY: no thread of this program changes the environment.
  unsafe getenv(name).map { unsafe String(cString: $0) }
}
