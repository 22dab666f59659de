// OpenSSL's libssl and libcrypto, and what of them Swift cannot import by itself: function-like macros, and the typed
// stacks, which are macros too. Each function here is the macro of its name.

#ifndef COPENSSL_H
#define COPENSSL_H

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

static inline long copenssl_SSL_set_mode(SSL *ssl, long mode) { return SSL_set_mode(ssl, mode); }

static inline size_t copenssl_BIO_pending(BIO *bio) { return BIO_ctrl_pending(bio); }
static inline int copenssl_BIO_shutdown_wr(BIO *bio) { return (int)BIO_shutdown_wr(bio); }
static inline int copenssl_BIO_set_write_buf_size(BIO *bio, long size) { return (int)BIO_set_write_buf_size(bio, size); }
static inline int copenssl_BIO_make_bio_pair(BIO *one, BIO *other) { return (int)BIO_make_bio_pair(one, other); }
static inline int copenssl_BIO_destroy_bio_pair(BIO *bio) { return (int)BIO_destroy_bio_pair(bio); }

#endif
