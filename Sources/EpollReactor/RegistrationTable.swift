/// All registrations of a reactor.
///
/// epoll events carry a token, which names a place in the table and the generation of that place. Each change of the descriptor
/// raises the generation. So an event that was fetched before the change carries a token that no longer fits, and is dropped.
struct RegistrationTable {
  private var places: [(registration: Registration?, generation: UInt32)] = []
  private var free: [Int] = []
  private var nextSerial: UInt64 = 0
  /// The reactor is shut down: no registration enters any more.
  var areClosed = false

  /// Gives a registration a new serial number. Deadlines with the old one no longer reach it.
  mutating func renewSerial(of registration: Registration) {
    nextSerial += 1
    registration.serial = nextSerial
  }

  /// Gives a registration a place.
  mutating func insert(_ registration: Registration) -> Int {
    renewSerial(of: registration)
    if let place = free.popLast() {
      places[place].registration = registration
      return place
    }
    places.append((registration, 0))
    return places.count - 1
  }

  /// Frees a place; its token fits no longer.
  mutating func remove(_ place: Int) {
    places[place].registration = nil
    places[place].generation &+= 1
    free.append(place)
  }

  /// Makes a new token for a place. The previous one fits no longer.
  mutating func renewToken(_ place: Int) -> UInt64 {
    places[place].generation &+= 1
    return UInt64(places[place].generation) << 32 | UInt64(place)
  }

  /// The registration that a token names, unless it is stale.
  subscript(token: UInt64) -> Registration? {
    let place = Int(token & 0xffff_ffff)
    guard place < places.count, places[place].generation == UInt32(token >> 32) else { return nil }
    return places[place].registration
  }

  /// The registration that a deadline is for, unless it has left or was handed to another handler since.
  subscript(deadline: Deadline) -> Registration? {
    guard let registration = places[deadline.place].registration, registration.serial == deadline.serial else {
      return nil
    }
    return registration
  }

  /// The number of registrations, each of which has at most one descriptor.
  var count: Int { places.count - free.count }

  /// All registrations.
  var all: [Registration] { places.compactMap(\.registration) }
}
