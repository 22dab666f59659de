internal import ActorSockets
internal import SocketSystem

extension Simulation {
  /// Records what two hosts send each other, for Wireshark and tshark: pcapng.
  ///
  /// ```swift
  /// try simulation.capture(between: client, and: server, to: "trouble.pcapng")
  /// ```
  ///
  /// The file has the packets of TCP, UDP and ICMP with the times at which they were sent, as a program on the sender would record them.
  /// The times count from the beginning of the simulation, which is 1970 in the file. A packet that the link loses has the comment `lost`, and
  /// one that it doubles the comment `arrives twice`. Datagrams are not divided into fragments. The same seed gives the same bytes.
  ///
  /// The file is complete when ``SimulatedCapture/stop()`` has returned, or when the simulation has ended. Call this within the simulated
  /// program only.
  ///
  /// - Parameters:
  ///   - one: A host. Its packets are outbound in the file.
  ///   - other: The other host.
  ///   - path: The path of the file. A file that exists is replaced. Only its owner may read it.
  /// - Returns: The recording. Its ``SimulatedCapture/stop()`` ends it.
  /// - Throws: ``SocketError``: the error of open(2).
  @discardableResult
  public func capture(
    between one: SimulatedHost, and other: SimulatedHost, to path: String
  ) throws -> SimulatedCapture {
    do throws(SystemError) {
      let recorder = try PacketRecorder(between: one.number, and: other.number, path: path)
      VirtualThread.required.network.recorders.append(recorder)
      return SimulatedCapture(recorder: recorder, path: path)
    } catch {
      throw SocketError(error, operation: "capture to \(path)")
    }
  }
}

/// A file into which a simulation records packets: ``Simulation/capture(between:and:to:)``.
public struct SimulatedCapture: Sendable {
  let recorder: PacketRecorder
  let path: String

  /// Ends the recording and completes the file. It does nothing if that has happened. Within the simulated program only.
  ///
  /// - Throws: ``SocketError``: the first error of write(2), for example because the disk is full. The file lacks packets then.
  public func stop() throws {
    VirtualThread.required.network.recorders.removeAll { $0 === recorder }
    if let error = recorder.finish() { throw SocketError(error, operation: "capture to \(path)") }
  }
}
