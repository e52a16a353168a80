/* Between release.c (writing) and release_verify.c (reading). */
#ifndef INFQ_RECIPE_RELEASE_INT_H
#define INFQ_RECIPE_RELEASE_INT_H

#define INFQ_RELEASE_SCHEMA "infq.release.v1"
#define INFQ_RELEASE_ZEROS "0000000000000000000000000000000000000000000000000000000000000000"

#endif
