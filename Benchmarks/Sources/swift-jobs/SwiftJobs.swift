import ActorSockets
import ServerSupport

/// A job server with the protocol of beanstalkd, written as a user would write it: one tube, and the commands of producers and workers.
@main
struct SwiftJobs {
  static func main() async throws {
    var arguments = Arguments(usage: "swift-jobs [--on reactor|pool] [PORT]")
    let runsOnReactor = arguments.take("--on", or: false) { ["reactor": true, "pool": false][$0] }
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: arguments.port()))
    for address in listener.localAddresses { printError("listening on \(address)") }
    let queue = JobQueue()
    let cleaning = Task {
      while true {
        try await Task.sleep(for: .seconds(1))
        await queue.releaseOverdue()
      }
    }
    defer { cleaning.cancel() }
    try await listener.serve(.init(on: runsOnReactor ? .reactor : .pool)) { connection in
      var mine: Set<UInt64> = []
      do {
        for try await command in connection.messages(of: .parsing(CommandParser())) {
          try await connection.write(answer(to: command, queue, &mine))
        }
      } catch {
        await queue.release(mine)
        throw error
      }
      await queue.release(mine)
    }
  }

  private static func answer(to command: Command, _ queue: JobQueue, _ mine: inout Set<UInt64>) async -> [UInt8] {
    switch command {
    case .put(let priority, let timeToRun, let job):
      return Array("INSERTED \(await queue.put(job, priority: priority, timeToRun: timeToRun))\r\n".utf8)
    case .reserve:
      let job = await queue.reserve()
      mine.insert(job.id)
      var answer = Array("RESERVED \(job.id) \(job.bytes.count)\r\n".utf8)
      answer += job.bytes
      answer += [UInt8(ascii: "\r"), UInt8(ascii: "\n")]
      return answer
    case .delete(let id):
      mine.remove(id)
      return Array((await queue.delete(id) ? "DELETED\r\n" : "NOT_FOUND\r\n").utf8)
    case .unknown:
      return Array("UNKNOWN_COMMAND\r\n".utf8)
    }
  }
}
