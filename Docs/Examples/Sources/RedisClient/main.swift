// A small redis-cli.
//
//   RedisClient HOST:PORT COMMAND [ARGUMENT…]
//   RedisClient HOST:PORT SUBSCRIBE CHANNEL…
//
// The environment variable REDIS_PASSWORD has the password.

import ActorSockets
import ByteText
import Foundation

func describe(_ value: RESPValue, indented: String = "") -> String {
  switch value {
  case .simple(let text), .error(let text): text
  case .integer(let number): "(integer) \(number)"
  case .bulk(let bytes): String(decoding: bytes, as: UTF8.self)
  case .null: "(nil)"
  case .array(let values):
    values.map { indented + "- " + describe($0, indented: indented + "  ") }.joined(separator: "\n")
  }
}

let arguments = CommandLine.arguments.dropFirst()
guard arguments.count >= 2, let address = arguments.first else {
  print("usage: RedisClient HOST:PORT|unix:PATH COMMAND [ARGUMENT…]")
  exit(2)
}
let words = Array(arguments.dropFirst())

do {
  var configuration = RedisClient.Configuration()
  configuration.password = ProcessInfo.processInfo.environment["REDIS_PASSWORD"]
  let client = RedisClient(try Endpoint(parsing: address), configuration: configuration)
  if ByteText(words[0]).equalsIgnoringCase("SUBSCRIBE") {
    for try await event in client.messages(of: Array(words.dropFirst())) {
      switch event {
      case .subscribed(let channel): print("subscribed to \(channel)")
      case .message(let channel, let content): print("\(channel): \(String(decoding: content, as: UTF8.self))")
      }
      fflush(nil)
    }
  } else {
    print(describe(try await client.send(RedisCommand(words[0], words.dropFirst().map { Array($0.utf8) }))))
  }
  await client.close()
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
