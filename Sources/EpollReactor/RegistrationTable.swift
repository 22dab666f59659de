/// The registrations of a reactor. epoll events carry a token, which names a slot in the table and the generation of that slot. Each
/// change of the descriptor raises the generation. So an event that was fetched before the change carries a token that no longer fits,
/// and is dropped.
struct RegistrationTable {
  private var slots: [(registration: Registration?, generation: UInt32)] = []
  private var free: [Int] = []
  private var nextSerial: UInt64 = 0
  /// After the reactor's shutdown no registration enters.
  var areClosed = false

  /// Deadlines with the old serial number no longer reach the registration.
  mutating func renewSerial(of registration: Registration) {
    nextSerial += 1
    registration.serial = nextSerial
  }

  mutating func insert(_ registration: Registration) -> Int {
    renewSerial(of: registration)
    if let slot = free.popLast() {
      slots[slot].registration = registration
      return slot
    }
    slots.append((registration, 0))
    return slots.count - 1
  }

  mutating func remove(_ slot: Int) {
    slots[slot].registration = nil
    slots[slot].generation &+= 1
    free.append(slot)
  }

  mutating func renewToken(_ slot: Int) -> UInt64 {
    slots[slot].generation &+= 1
    return token(slot)
  }

  func token(_ slot: Int) -> UInt64 { UInt64(slots[slot].generation) << 32 | UInt64(slot) }

  subscript(token: UInt64) -> Registration? {
    let slot = Int(token & 0xffff_ffff)
    guard slot < slots.count, slots[slot].generation == UInt32(token >> 32) else { return nil }
    return slots[slot].registration
  }

  /// `nil` if the registration has left or was handed to another handler since.
  subscript(deadline: Deadline) -> Registration? {
    guard let registration = slots[deadline.slot].registration, registration.serial == deadline.serial else {
      return nil
    }
    return registration
  }

  /// Each registration has at most one descriptor.
  var count: Int { slots.count - free.count }
  var all: [Registration] { slots.compactMap(\.registration) }

  /// The registrations in at most `most` slots, and the slot after them; `nil` at the end.
  func portion(from slot: Int, most: Int) -> ([Registration], next: Int?) {
    let end = min(slots.count, slot + most)
    if slot >= end { return ([], nil) }
    return (slots[slot..<end].compactMap(\.registration), end < slots.count ? end : nil)
  }
}
