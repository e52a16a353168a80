mkdir bin; printf '#!/bin/sh\n[ "$3" != check ] || exit 1\necho install ok installed\n' >bin/dpkg-query
printf '#!/bin/sh\necho "$@" >>log\n' >bin/sudo; printf '#!/bin/sh\necho 1000\n' >bin/id; chmod +x bin/*; export PATH=$PWD/bin:$PATH
/bin/sh "$ROOT/tools/setup.sh" gcc make; /bin/sh "$ROOT/tools/setup.sh" gcc check make; cat log
