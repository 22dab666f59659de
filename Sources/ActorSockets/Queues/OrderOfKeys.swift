extension Dictionary where Key: Comparable {
  /// The values in the order of their keys. The order of `values` differs from run to run; a simulation must do the same things in each.
  var valuesInOrder: [Value] { sorted { $0.key < $1.key }.map(\.value) }
}
