#include "tls.h"

#include <openssl/err.h>
#include <signal.h>
#include <stdio.h>

enum { READ_BUFFER = 64 * 1024 };

// Who the server is makes no difference here, and building its chain would be the load generator's time. The signature
// over the handshake is checked all the same.
static int trust(X509_STORE_CTX *store, void *unused) {
  (void)store, (void)unused;
  return 1;
}

SSL_CTX *tls_context(void) {
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to its sockets with write
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  // One of each, so that all servers choose the same.
  if (context && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
      SSL_CTX_set1_groups_list(context, "X25519") == 1) {
    SSL_CTX_set_cert_verify_callback(context, trust, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    // Several records with one recv.
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_default_read_buffer_len(context, READ_BUFFER);
    return context;
  }
  tls_print_errors("no TLS");
  SSL_CTX_free(context);
  return NULL;
}

SSL *tls_client(SSL_CTX *context, int fd) {
  SSL *ssl = SSL_new(context);
  if (ssl && SSL_set_fd(ssl, fd) == 1) {
    SSL_set_connect_state(ssl);
    return ssl;
  }
  SSL_free(ssl);
  return NULL;
}

enum tls_outcome tls_outcome_of(SSL *ssl, int result) {
  if (result > 0) return TLS_DONE;
  switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return TLS_BLOCKED;
    case SSL_ERROR_ZERO_RETURN: return TLS_ENDED;
    default: return TLS_FAILED;
  }
}

void tls_print_errors(const char *what) {
  fprintf(stderr, "load: %s\n", what);
  ERR_print_errors_fp(stderr);
}
