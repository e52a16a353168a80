mkdir bin; printf '#!/bin/sh\nexit 1\n' >bin/dpkg-query; printf '#!/bin/sh\necho 1000\n' >bin/id; chmod +x bin/*; PATH=$PWD/bin /bin/sh "$ROOT/tools/setup.sh" check libyaml-dev
