internal import CLinux

/// A place of each thread for one object of this class: what the thread works for.
@safe package struct ThreadPlace<Object: AnyObject>: Sendable {
  /// The places there are.
  package enum Number: Int32, Sendable { case loop, worker }

  private let number: Int32

  /// The place with this number, which is that of objects of this class alone.
  package init(_ number: Number) { self.number = number.rawValue }

  /// The calling thread's object. It is not kept alive: whoever puts it there takes it away in time.
  package var object: Object? {
    get {
      // SAFETY: what was put there lives until it is taken away, and there is nothing of another class at this place.
      // Not with Optional's `map`: generic code calls it through the runtime, which costs hundreds of instructions a call.
      guard let object = unsafe clinux_thread_object(number) else { return nil }
      return unsafe Unmanaged<Object>.fromOpaque(object).takeUnretainedValue()
    }
    nonmutating set {
      // SAFETY: as above.
      if let newValue {
        unsafe clinux_set_thread_object(number, Unmanaged.passUnretained(newValue).toOpaque())
      } else {
        clinux_set_thread_object(number, nil)
      }
    }
  }
}
