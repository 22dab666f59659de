/// The lists of revoked certificates (CRLs) that the certificates of peers are checked against: RFC 5280, section 5.
public enum TLSRevocation: Sendable {
  /// Certificates are not checked against lists.
  case none
  /// Certificates are checked against these lists; at least one.
  ///
  /// A certificate without a current list of its issuer is refused: with
  /// ``TLSError/Code-swift.struct/revocationUnknown`` if there is no list, and with
  /// ``TLSError/Code-swift.struct/revocationListExpired`` if the list is out of date. Trust roots need no list.
  case crls([List], scope: Scope = .chain)

  /// A source of revocation lists. Delta lists and indirect lists are not supported: they count as missing.
  public enum List: Sendable {
    /// A file with one or more lists in PEM form, or one in DER form.
    case file(String)
    /// One or more lists in PEM form, or one in DER form.
    case bytes([UInt8])
  }

  /// Which certificates of a chain are checked.
  public enum Scope: Hashable, Sendable {
    /// The peer's own certificate. The certificates of authorities are not checked.
    case leaf
    /// All certificates. Each authority between the peer and the root needs a list, too.
    case chain
  }
}

extension TLSContext {
  /// Replaces the revocation lists for certificates that are verified from now on.
  ///
  /// Established connections do not change. Clients and servers of this context no longer resume the sessions of earlier
  /// connections, because resumption does not verify the peer again.
  ///
  /// - Parameter revocation: Replaces ``TLSConfiguration/revocation``.
  /// - Throws: ``TLSError`` with the code `.badFile` if a source has no list or cannot be read, and
  ///   `.invalidConfiguration` if there is no source. Then nothing is replaced.
  public func replaceRevocationLists(_ revocation: TLSRevocation) throws(TLSError) {
    let generation = try newSessionContext()
    try revocationLists.replace(revocation)
    // In this order: a connection that begins in between is verified with the new lists, and leaves no session.
    forgetSessions(beginning: generation)
  }

  /// Reads the files of the revocation lists again, as ``replaceRevocationLists(_:)`` with the same sources.
  ///
  /// - Throws: ``TLSError`` with the code `.badFile` if a source has no list or cannot be read. Then the old lists
  ///   stay.
  public func reloadRevocationLists() throws(TLSError) {
    try replaceRevocationLists(revocationLists.current.revocation)
  }
}
