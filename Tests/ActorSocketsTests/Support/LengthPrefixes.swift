import ActorSockets

extension LengthPrefix {
  static let allForms: [LengthPrefix] =
    [.uint8]
    + [Endianness.big, .little].flatMap { endianness in
      [false, true].flatMap { countsItself in
        [
          LengthPrefix.uint16(endianness, countsItself: countsItself),
          .uint32(endianness, countsItself: countsItself), .uint64(endianness, countsItself: countsItself),
        ]
      }
    }
}
