internal import CLinux

/// For each thread, the object that the thread works for, if there is one.
@safe package struct ThreadLocal<Object: AnyObject>: Sendable {
  package enum Number: Int32, Sendable { case loop, worker, system }

  private let number: Int32

  /// Only objects of this class may use the number.
  package init(_ number: Number) { self.number = number.rawValue }

  /// The calling thread's object. The reference does not retain it, so the code that sets it must also clear it in time.
  package var object: Object? {
    get {
      // SAFETY: the object lives until the reference is cleared, and no other class uses this number.
      // This does not use Optional's `map`, because generic code calls it through the runtime, which costs hundreds of
      // instructions.
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
