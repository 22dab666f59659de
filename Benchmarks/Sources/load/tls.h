// The client's side of TLS, alike for all measurements and all servers: version 1.3, AES-128-GCM, X25519.

#ifndef TLS_H
#define TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>

// What one call of OpenSSL came to.
enum tls_outcome { TLS_DONE, TLS_BLOCKED, TLS_ENDED, TLS_FAILED };

// A context, or NULL after it said why on standard error.
SSL_CTX *tls_context(void);

// A client on a connected descriptor, or on one that is being connected; NULL without memory.
SSL *tls_client(SSL_CTX *context, int fd);

enum tls_outcome tls_outcome_of(SSL *ssl, int result);

// Says why on standard error, and forgets it.
void tls_print_errors(const char *what);

#endif
