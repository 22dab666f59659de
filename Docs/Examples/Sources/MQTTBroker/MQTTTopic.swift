/// The names of topics, and the filters of subscriptions: section 4.7.
enum MQTTTopic {
  /// Whether a message can be published to this topic.
  static func isValid(_ topic: String) -> Bool {
    !topic.isEmpty && !topic.utf8.contains(UInt8(ascii: "+")) && !topic.utf8.contains(UInt8(ascii: "#"))
  }

  /// Whether this is a filter: `+` stands for one level, and `#` for all levels that follow.
  static func isValid(filter: String) -> Bool {
    let levels = levels(of: filter)
    return !filter.isEmpty
      && levels.enumerated().allSatisfy { index, level in
        let hasWildcard = level.utf8.contains { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "#") }
        return !hasWildcard || level == "+" || level == "#" && index == levels.count - 1
      }
  }

  /// Returns whether a filter matches a topic.
  static func matches(_ filter: String, _ topic: String) -> Bool {
    let (filterLevels, topicLevels) = (levels(of: filter), levels(of: topic))
    // Topics with a dollar sign are the broker's own. They must be asked for by their name.
    if topic.utf8.first == UInt8(ascii: "$"), filterLevels[0] == "+" || filterLevels[0] == "#" { return false }
    for (index, level) in filterLevels.enumerated() {
      // It also matches the level above: `a/#` matches `a`.
      if level == "#" { return true }
      guard index < topicLevels.count, level == "+" || level == topicLevels[index] else { return false }
    }
    return filterLevels.count == topicLevels.count
  }

  private static func levels(of text: String) -> [Substring] {
    text.split(separator: "/", omittingEmptySubsequences: false)
  }
}
