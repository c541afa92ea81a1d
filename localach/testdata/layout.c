// Prints the offsets of our own header as this compiler has them.
#include <stdio.h>

#include "../ach.h"

int main(void) {
	printf("header=%zu mutex=%zu mutex_size=%zu cond=%zu dirty=%zu last_seq=%zu index_cnt=%zu clock=%zu name=%zu entry=%zu total_4x16=%zu\n", sizeof(struct ach_header),
	       offsetof(struct ach_header, mutex), sizeof(pthread_mutex_t), offsetof(struct ach_header, cond), offsetof(struct ach_header, dirty),
	       offsetof(struct ach_header, last_seq), offsetof(struct ach_header, index_cnt), offsetof(struct ach_header, clock), offsetof(struct ach_header, name),
	       sizeof(struct ach_entry), sizeof(struct ach_header) + 4 * (sizeof(struct ach_entry) + 16) + 24);
	return 0;
}
