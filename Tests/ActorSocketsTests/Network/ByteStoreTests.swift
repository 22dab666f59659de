import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.pure)) struct ByteStoreTests {
  @Test func `It does what an array does`() {
    var random = SeededRandom(seed: 1)
    var (store, model) = (ByteStore(), [UInt8]())
    for _ in 0..<2_000 {
      let bytes = (0..<random.below(200)).map { _ in UInt8(random.below(256)) }
      let most = random.below(2) == 0 ? 1_000 : bytes.count / 2
      if random.below(3) == 0 {
        store.append(bytes)
        model += bytes
      } else {
        store.append(bytes.span, atMost: most)
        model += bytes.prefix(most)
      }
      let count = random.below(4) == 0 ? store.count : random.below(store.count + 1)
      #expect(store.copy(0..<store.count) == model)
      store.drop(count)
      model.removeFirst(count)
      #expect(store.count == model.count && store.isEmpty == model.isEmpty)
    }
  }

  @Test func `Many small pieces move the bytes only a few times`() {
    var store = ByteStore()
    var moves = 0
    for _ in 0..<100_000 {
      let before = store.capacity
      store.append([1].span, atMost: 1)
      if store.capacity != before { moves += 1 }
    }
    #expect(store.count == 100_000 && moves < 40)
  }
}
