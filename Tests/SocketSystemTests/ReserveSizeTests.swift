import Testing

@testable import SocketSystem

@Suite struct ReserveSizeTests {
  @Test(arguments: [
    (0, 0, 1), (1, 1, 1), (4, 3, 2), (32, 24, 16), (64, 48, 32), (100, 75, 50), (128, 96, 64), (256, 224, 192),
    (1024, 992, 960), (20_000, 19_968, 19_936), (Int.max, Int.max - 32, Int.max - 64),
  ])
  func `The reserve is 32 numbers, or a quarter of a low limit`(limit: Int, first: Int, connections: Int) {
    let reserve = DescriptorReserve(limit: limit)
    #expect(reserve.first == first && reserve.connections == connections)
    #expect(!reserve.contains(Int32(clamping: first - 1)))
    #expect(reserve.contains(Int32(clamping: first)) || first > Int32.max)
  }
}
