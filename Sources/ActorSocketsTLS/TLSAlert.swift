/// The names of alerts in RFC 8446, section 6, and their meanings when a peer sends them.
enum TLSAlert {
  static func name(_ number: UInt8) -> String { names[number]?.name ?? "alert_\(number)" }

  static func sentence(_ number: UInt8) -> String {
    guard let meaning = names[number]?.meaning else { return "the peer ended the connection with an alert" }
    return "the peer ended the connection: \(meaning)"
  }

  static let unexpectedMessage: UInt8 = 10
  static let illegalParameter: UInt8 = 47
  static let internalError: UInt8 = 80
  static let userCanceled: UInt8 = 90

  /// A record in plain text with a fatal alert.
  static func record(_ number: UInt8) -> [UInt8] { [21, 3, 3, 0, 2, 2, number] }

  private static let names: [UInt8: (name: String, meaning: String?)] = [
    0: ("close_notify", nil),
    10: ("unexpected_message", "it got a message that it did not expect"),
    20: ("bad_record_mac", "a record was damaged on the way to it"),
    22: ("record_overflow", "it got a record that is too long"),
    40: ("handshake_failure", "the two sides have no cipher in common, or it wants a certificate"),
    42: ("bad_certificate", "it does not accept this side's certificate"),
    43: ("unsupported_certificate", "it does not accept the kind of this side's certificate"),
    44: ("certificate_revoked", "this side's certificate was revoked"),
    45: ("certificate_expired", "this side's certificate has expired, or its clock is wrong"),
    46: ("certificate_unknown", "it does not accept this side's certificate"),
    47: ("illegal_parameter", "a field of a message was out of range or inconsistent"),
    48: ("unknown_ca", "it does not know the authority of this side's certificate"),
    49: ("access_denied", "this side's certificate is fine but gives no access"),
    50: ("decode_error", "it could not read a message"),
    51: ("decrypt_error", "a signature or a check in the handshake was wrong"),
    70: ("protocol_version", "it does not speak the versions of TLS that this side does"),
    71: ("insufficient_security", "it requires stronger ciphers than this side offers"),
    80: ("internal_error", "something failed on its side"),
    86: ("inappropriate_fallback", "it saw an attempt to use an older version than necessary"),
    90: ("user_canceled", "it cancelled the handshake"),
    100: ("no_renegotiation", "it refuses another handshake"),
    109: ("missing_extension", "a message lacked an extension that it requires"),
    110: ("unsupported_extension", "it got an extension that it did not ask for"),
    112: ("unrecognized_name", "it has no certificate for the requested server name"),
    113: ("bad_certificate_status_response", "it does not accept the status of this side's certificate"),
    115: ("unknown_psk_identity", "it does not know the shared key"),
    116: ("certificate_required", "it requires a client certificate, and this side sent none"),
    120: ("no_application_protocol", "it speaks none of the application protocols that were offered"),
  ]
}
