import Foundation

/// Makes certificates with the `openssl` command: keys, requests and signatures, in the files `NAME.key` and `NAME.pem` of
/// a folder.
package struct Authority {
  package let folder: CertificateFolder

  /// Makes a root, too.
  package init(in folder: CertificateFolder, _ root: String) throws {
    self.folder = folder
    try makeRoot(root)
  }

  package init(in folder: CertificateFolder) { self.folder = folder }

  /// Makes a certificate that is signed by itself. Extensions are in the notation of x509v3_config(5), one a line; dates
  /// are written `YYYYMMDDHHMMSSZ`.
  package func makeRoot(
    _ name: String, subject: String? = nil, key: String = "ec -pkeyopt ec_paramgen_curve:P-256",
    extensions: String = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign",
    dates: (from: String, to: String)? = nil, digest: String = "sha256"
  ) throws {
    try request(name, subject: subject ?? "/CN=\(name)", key: key)
    try sign(name, by: "-selfsign -keyfile \(name).key", extensions, dates, digest)
  }

  /// Makes a certificate that another one signs.
  package func issue(
    _ name: String, by issuer: String, subject: String? = nil, key: String = "ec -pkeyopt ec_paramgen_curve:P-256",
    extensions: String = "", dates: (from: String, to: String)? = nil, digest: String = "sha256"
  ) throws {
    try request(name, subject: subject ?? "/CN=\(name)", key: key)
    try sign(name, by: "-cert \(issuer).pem -keyfile \(issuer).key", extensions, dates, digest)
  }

  private func request(_ name: String, subject: String, key: String) throws {
    // The key may be there already: then the certificate is another one for it.
    let hasKey = FileManager.default.fileExists(atPath: folder("\(name).key"))
    let source = hasKey ? "-key \(name).key" : "-newkey \(key) -nodes -keyout \(name).key"
    try folder.openssl("req -new \(source) -subj \(subject) -out \(name).csr")
  }

  /// `openssl ca` is the only command that takes any dates. The files that it keeps its records in are made anew each time.
  private func sign(
    _ name: String, by signer: String, _ extensions: String, _ dates: (from: String, to: String)?, _ digest: String
  ) throws {
    try folder.write(
      "\(name).cnf",
      """
      [ca]
      default_ca=it
      [it]
      database=\(name).index
      new_certs_dir=.
      rand_serial=yes
      policy=any
      unique_subject=no
      email_in_dn=no
      [any]
      commonName=optional
      organizationName=optional
      [extensions]
      subjectKeyIdentifier=hash
      authorityKeyIdentifier=keyid
      \(extensions)

      """)
    try folder.write("\(name).index", "")
    let (from, to) = dates ?? ("20200101000000Z", "20450101000000Z")
    try folder.openssl(
      "ca -batch -notext -preserveDN -config \(name).cnf -extensions extensions -md \(digest) -startdate \(from) "
        + "-enddate \(to) \(signer) -in \(name).csr -out \(name).pem")
  }
}
