import Foundation
import TestSupport
import Testing

/// The licence of the repository is in one place, and nothing in the tree is under another one: no file but `LICENSE` and `NOTICE` has the
/// words of a licence, or says who has the rights to it.
@Suite(.tags(.pure)) struct LicenceTests {
  /// This file has the words in its tests.
  private static let allowed = ["LICENSE", "NOTICE", "Tests/SourceRulesTests/LicenceTests.swift"]

  @Test func `No file has the words of a licence, apart from the licence itself`() throws {
    let files = SourceFile.tree
    #expect(files.count > 500 && Self.allowed.allSatisfy(files.contains))
    for path in files where !Self.allowed.contains(path) {
      let text = try #require(SourceFile.bytes(of: path), "\(path) cannot be read")
      for violation in LicenceWords.violations(in: text) { violation.record(in: path) }
    }
  }

  @Test func `The licence is the Apache License, and the notice names the authors`() throws {
    let licence = try #require(SourceFile.text(of: "LICENSE"))
    #expect(licence.contains("Apache License\n                           Version 2.0, January 2004"))
    #expect(licence.contains("END OF TERMS AND CONDITIONS"))
    #expect(SourceFile.text(of: "NOTICE") == "ActorSockets\nCopyright 2026 the ActorSockets authors\n")
  }

  @Test(arguments: [
    "// Copyright (c) 2014 A. Person", "Copyright © Some Company", "# Copyright 2020, the authors", "Copyright 1999",
    "// SPDX-License-Identifier: MIT", "the GNU General Public License", "/* All rights reserved. */",
    "Permission is hereby granted, free of charge", "Licensed under the Apache License", "THE SOFTWARE IS PROVIDED",
    "Redistribution and use in source and binary forms", "the Mozilla Public License, v. 2.0", "has the MIT License",
  ])
  func `The words of a licence are found`(text: String) {
    #expect(LicenceWords.violations(in: Data("one\n\(text)\n".utf8)).map(\.line) == [2])
  }

  @Test(arguments: [
    "It has the Apache License 2.0.", "let copyright = 1", "permission is granted by the kernel", "BSD sockets", "",
  ])
  func `Other words are allowed`(text: String) {
    #expect(LicenceWords.violations(in: Data(text.utf8)).isEmpty)
  }
}

/// The words of licences, and of notices about who has the rights to a work.
private enum LicenceWords {
  /// As licences spell them. They are searched as bytes: over the whole tree, a regular expression took five times as long.
  private static let phrases = [
    "Copyright (c)", "Copyright (C)", "Copyright ©", "Copyright 19", "Copyright 20", "copyright (c)", "COPYRIGHT (C)",
    "All rights reserved", "ALL RIGHTS RESERVED", "SPDX-License-Identifier", "Licensed under the", "MIT License",
    "BSD 2-Clause", "BSD 3-Clause", "GNU General Public", "GNU Lesser General", "GNU Affero", "Mozilla Public License",
    "Permission is hereby granted", "Redistribution and use in source", "THE SOFTWARE IS PROVIDED",
  ]

  static func violations(in text: Data) -> [SourceRule.Violation] {
    phrases.compactMap { phrase in
      guard let range = text.range(of: Data(phrase.utf8)) else { return nil }
      return SourceRule.Violation(
        line: text[..<range.lowerBound].count { $0 == UInt8(ascii: "\n") } + 1,
        message: "\"\(phrase)\": only LICENSE and NOTICE have the words of a licence")
    }
  }
}

extension SourceFile {
  /// The paths of all files of the repository: those of its root and of its folders, without those that a build has made.
  fileprivate static let tree: [String] = {
    let folders = ["Benchmarks", "Docs", "Sources", "Tests"]
    return names(in: "").filter { !isFolder($0) } + folders.flatMap(files)
  }()

  fileprivate static func bytes(of path: String) -> Data? {
    // Not by Data's initialiser, which loses some memory when the file is empty.
    guard let file = FileHandle(forReadingAtPath: absolutePath(of: path)) else { return nil }
    return try? file.readToEnd() ?? Data()
  }

  private static func files(in folder: String) -> [String] {
    names(in: folder).flatMap { name -> [String] in
      let path = "\(folder)/\(name)"
      if !isFolder(path) { return [path] }
      return [".build", "__pycache__"].contains(name) || path == "Docs/Site" ? [] : files(in: path)
    }
  }

  private static func names(in folder: String) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: absolutePath(of: folder))) ?? []).sorted()
  }

  private static func isFolder(_ path: String) -> Bool {
    let attributes = try? FileManager.default.attributesOfItem(atPath: absolutePath(of: path))
    return attributes?[.type] as? FileAttributeType == .typeDirectory
  }
}
