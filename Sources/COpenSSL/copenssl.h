// OpenSSL's libssl and libcrypto, and wrappers for the parts that Swift cannot import: function-like macros, and computed
// constants. Each function or constant wraps the macro of the same name, unless stated otherwise.

#ifndef COPENSSL_H
#define COPENSSL_H

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/rand.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

static const uint64_t copenssl_SSL_OP_NO_RENEGOTIATION = SSL_OP_NO_RENEGOTIATION;
static const uint64_t copenssl_SSL_OP_NO_COMPRESSION = SSL_OP_NO_COMPRESSION;
static const uint64_t copenssl_SSL_OP_CIPHER_SERVER_PREFERENCE = SSL_OP_CIPHER_SERVER_PREFERENCE;
static const uint64_t copenssl_SSL_OP_IGNORE_UNEXPECTED_EOF = SSL_OP_IGNORE_UNEXPECTED_EOF;
static const uint64_t copenssl_SSL_OP_NO_TICKET = SSL_OP_NO_TICKET;
// OpenSSL knows it from 3.2 on. Earlier versions ignore the bit, so a program built with one of them may run with a later one.
static const uint64_t copenssl_SSL_OP_NO_RX_CERTIFICATE_COMPRESSION = (uint64_t)1 << 33;

// The reasons that all libraries of OpenSSL share have this bit.
static const int copenssl_ERR_RFLAG_COMMON = ERR_RFLAG_COMMON;
static const int copenssl_ERR_R_MALLOC_FAILURE = ERR_R_MALLOC_FAILURE;
static const int copenssl_ERR_R_UNSUPPORTED = ERR_R_UNSUPPORTED;

static const unsigned long copenssl_XN_FLAG_RFC2253 = XN_FLAG_RFC2253;

static inline long copenssl_SSL_CTX_set_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_set_mode(ctx, mode); }
static inline int copenssl_SSL_CTX_set_min_proto_version(SSL_CTX *ctx, int version) { return (int)SSL_CTX_set_min_proto_version(ctx, version); }
static inline int copenssl_SSL_CTX_set_max_proto_version(SSL_CTX *ctx, int version) { return (int)SSL_CTX_set_max_proto_version(ctx, version); }
static inline long copenssl_SSL_CTX_set_dh_auto(SSL_CTX *ctx, int on) { return SSL_CTX_set_dh_auto(ctx, on); }
static inline long copenssl_SSL_get_max_cert_list(SSL *ssl) { return SSL_get_max_cert_list(ssl); }
static inline int copenssl_SSL_CTX_set1_groups_list(SSL_CTX *ctx, const char *list) { return (int)SSL_CTX_set1_groups_list(ctx, list); }
static inline long copenssl_SSL_CTX_set_session_cache_mode(SSL_CTX *ctx, long mode) { return SSL_CTX_set_session_cache_mode(ctx, mode); }
static inline long copenssl_SSL_CTX_sess_set_cache_size(SSL_CTX *ctx, long size) { return SSL_CTX_sess_set_cache_size(ctx, size); }
static inline long copenssl_SSL_CTX_set_tlsext_servername_callback(SSL_CTX *ctx, int (*callback)(SSL *, int *, void *)) { return SSL_CTX_set_tlsext_servername_callback(ctx, callback); }
static inline int copenssl_SSL_set_tlsext_host_name(SSL *ssl, const char *name) { return (int)SSL_set_tlsext_host_name(ssl, name); }
static inline int copenssl_SSL_get_negotiated_group(SSL *ssl) { return (int)SSL_get_negotiated_group(ssl); }
static inline int copenssl_SSL_get_extms_support(SSL *ssl) { return (int)SSL_get_extms_support(ssl); }
static inline int copenssl_SSL_set_retry_verify(SSL *ssl) { return (int)SSL_set_retry_verify(ssl); }

static inline long copenssl_SSL_CTX_set_tlsext_status_type(SSL_CTX *ctx, int type) { return SSL_CTX_set_tlsext_status_type(ctx, type); }
static inline long copenssl_SSL_CTX_set_tlsext_status_cb(SSL_CTX *ctx, int (*callback)(SSL *, void *)) { return SSL_CTX_set_tlsext_status_cb(ctx, callback); }
static inline long copenssl_SSL_get_tlsext_status_ocsp_resp(SSL *ssl, const unsigned char **response) { return SSL_get_tlsext_status_ocsp_resp(ssl, response); }

// Copies the response, because the connection frees its own. Returns 1 on success.
static inline int copenssl_SSL_set_tlsext_status_ocsp_resp(SSL *ssl, const unsigned char *response, size_t length) {
  unsigned char *copy = (unsigned char *)OPENSSL_memdup(response, length);
  if (copy == NULL) return 0;
  if (SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long)length) == 1) return 1;
  OPENSSL_free(copy);
  return 0;
}

static inline EVP_PKEY *copenssl_EVP_EC_gen(const char *curve) { return EVP_EC_gen(curve); }
static inline EVP_PKEY *copenssl_EVP_RSA_gen(size_t bits) { return EVP_RSA_gen(bits); }

// Parameters keep pointers to the key and the digest's name, so both must stay valid until the parameters are set.
static inline int copenssl_HMAC_set_key(EVP_MAC_CTX *mac, const unsigned char *key, size_t length) {
  OSSL_PARAM parameters[] = {
    OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)key, length),
    OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
    OSSL_PARAM_construct_end(),
  };
  return EVP_MAC_CTX_set_params(mac, parameters);
}

static inline size_t copenssl_BIO_get_mem_data(BIO *bio, char **data) { return (size_t)BIO_get_mem_data(bio, data); }

#endif
