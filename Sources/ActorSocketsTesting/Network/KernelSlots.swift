/// The kernels of a network by their slots, which the numbers of descriptors name.
///
/// When the programs of a host are killed, its kernel moves to another slot, and a new kernel has its own. So a descriptor of a program
/// that no longer runs does nothing.
struct KernelSlots {
  /// No descriptor of Linux has such a high number, because /proc/sys/fs/nr_open cannot be raised that far. So on a thread that runs in no
  /// simulation, calls on a simulated descriptor fail with EBADF, and closing it does nothing.
  static let firstDescriptor: Int32 = 1 << 30
  /// The bits of a descriptor's number that count within its kernel. The others are the kernel's slot.
  private static let descriptorBits: Int32 = 16
  static let mostDescriptors = 1 << Int(descriptorBits)
  /// At one time. A new kernel gets a slot that was never used, or else the one that has been free for longest.
  private static let mostKernels = Int((Int32.max - firstDescriptor) >> descriptorBits)

  private var kernels: [SimulatedKernel?] = []
  /// The slots that have no kernel any more, the longest free first.
  private var free: [Int] = []

  /// Gives a kernel a slot, so that it can have descriptors.
  mutating func add(_ kernel: SimulatedKernel) {
    if kernels.count >= Self.mostKernels, !free.isEmpty {
      kernel.slot = free.removeFirst()
      kernels[kernel.slot] = kernel
    } else {
      precondition(kernels.count < Self.mostKernels, "a simulation has at most 16,383 hosts")
      kernel.slot = kernels.count
      kernels.append(kernel)
    }
  }

  /// The descriptors of the kernel mean nothing any more.
  mutating func remove(_ kernel: SimulatedKernel) {
    kernels[kernel.slot] = nil
    free.append(kernel.slot)
  }

  /// The number by which programs know a descriptor of the kernel in `slot`.
  static func number(of local: Int32, in slot: Int) -> Int32 {
    firstDescriptor + Int32(slot) << descriptorBits + local
  }

  func locate(_ number: Int32) -> (kernel: SimulatedKernel, local: Int)? {
    let rest = number - Self.firstDescriptor
    let slot = Int(rest >> Self.descriptorBits)
    guard rest >= 0, slot < kernels.count, let kernel = kernels[slot] else { return nil }
    return (kernel, Int(rest & (1 << Self.descriptorBits - 1)))
  }
}
