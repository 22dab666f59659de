import ByteText

/// The names of topics, and the filters of subscriptions: section 4.7.
enum MQTTTopic {
  /// Whether a message can be published to this topic.
  static func isValid(_ topic: ByteText) -> Bool { !topic.isEmpty && !topic.has("+") && !topic.has("#") }

  /// Whether this is a filter: `+` stands for one level, and `#` for all levels that follow.
  static func isValid(filter: ByteText) -> Bool {
    let levels = filter.parts(at: "/")
    return !filter.isEmpty
      && levels.enumerated().allSatisfy { index, level in
        let hasWildcard = level.has("+") || level.has("#")
        return !hasWildcard || level.isOneLevel || level.isAllLevels && index == levels.count - 1
      }
  }

  /// Returns whether a filter matches a topic. Levels are compared byte by byte.
  static func matches(_ filter: ByteText, _ topic: ByteText) -> Bool {
    let (filterLevels, topicLevels) = (filter.parts(at: "/"), topic.parts(at: "/"))
    // Topics with a dollar sign are the broker's own. They must be asked for by their name.
    if topic.begins(with: "$"), filterLevels[0].isOneLevel || filterLevels[0].isAllLevels { return false }
    for (index, level) in filterLevels.enumerated() {
      // It also matches the level above: `a/#` matches `a`.
      if level.isAllLevels { return true }
      guard index < topicLevels.count, level.isOneLevel || level == topicLevels[index] else { return false }
    }
    return filterLevels.count == topicLevels.count
  }
}

extension ByteText {
  fileprivate var isOneLevel: Bool { equals("+") }
  fileprivate var isAllLevels: Bool { equals("#") }
}
