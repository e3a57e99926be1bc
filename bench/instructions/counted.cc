#include "bench/instructions/counted.h"

extern "C" void penstock_counted(const penstock::Work& work, absl::Status* status) {
  *status = work();
}
