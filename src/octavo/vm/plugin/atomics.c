/*
 * A plugin of qemu's that counts the atomic instructions an AArch64 machine executes, in programs and in the kernel.
 *
 * It prints all counters when the machine executes `hint #96`, which does nothing else on any CPU: a line for each
 * counter, `octavo-count PRINTED WHERE NAME COUNT`. Counters are plain numbers: the machine has one processor.
 *
 * Debian ships no header for plugins. What follows are the declarations of the interface's version 1 that are used here
 * (qemu 5.2 to 8.2, include/qemu/qemu-plugin.h). Encodings: Arm ARM, C4.1, loads and stores.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <inttypes.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct qemu_info_t qemu_info_t;
typedef void (*translated_t)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*executed_t)(unsigned int, void *);
enum { INLINE_ADD_U64 = 0, NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated_t);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, executed_t, int, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
void qemu_plugin_outs(const char *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

#define HINT_96 (0xd503201fu | 96u << 5)

static const char *const names[] = {
	"ldxr", "stxr", "ldxp", "stxp", "cas", "casp", "swp",
	"ldadd", "ldclr", "ldeor", "ldset", "ldsmax", "ldsmin", "ldumax", "ldumin", "instructions"
};
enum { LDXR, STXR, LDXP, STXP, CAS, CASP, SWP, LDADD, ALL = 15, KINDS = 16 };

/* Of programs, and of the kernel, whose addresses have the highest bit. */
static uint64_t counters[2][KINDS];
static unsigned int printed;

/* Which counter an instruction belongs to, or -1. */
static int kind_of(uint32_t word)
{
	if ((word & 0x3f000000u) == 0x08000000u) {
		int ordered = word >> 23 & 1, load = word >> 22 & 1, pair = word >> 21 & 1;

		if (ordered)
			return pair ? CAS : -1;
		if (!pair)
			return load ? LDXR : STXR;
		if (word >> 31)
			return load ? LDXP : STXP;
		return CASP;
	}
	if ((word & 0x3f200c00u) == 0x38200000u) {
		int operation = word >> 12 & 7;

		if (word >> 15 & 1)
			return operation == 0 ? SWP : -1;
		return LDADD + operation;
	}
	return -1;
}

static void print_all(unsigned int processor, void *nothing)
{
	char line[100];

	(void)processor;
	(void)nothing;
	for (int where = 0; where < 2; where++)
		for (int kind = 0; kind < KINDS; kind++) {
			snprintf(line, sizeof(line), "octavo-count %u %s %s %" PRIu64 "\n", printed,
				 where ? "kernel" : "program", names[kind], counters[where][kind]);
			qemu_plugin_outs(line);
		}
	printed++;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	size_t count = qemu_plugin_tb_n_insns(block);
	uint64_t *mine = counters[qemu_plugin_tb_vaddr(block) >> 63];

	(void)id;
	qemu_plugin_register_vcpu_tb_exec_inline(block, INLINE_ADD_U64, &mine[ALL], count);
	for (size_t number = 0; number < count; number++) {
		struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(block, number);
		uint32_t word;
		int kind;

		if (qemu_plugin_insn_size(one) != sizeof(word))
			continue;
		memcpy(&word, qemu_plugin_insn_data(one), sizeof(word));
		kind = kind_of(word);
		if (kind >= 0)
			qemu_plugin_register_vcpu_insn_exec_inline(one, INLINE_ADD_U64, &mine[kind], 1);
		if (word == HINT_96)
			qemu_plugin_register_vcpu_insn_exec_cb(one, print_all, NO_REGISTERS, NULL);
	}
}

__attribute__((visibility("default")))
int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *about, int count, char **arguments)
{
	(void)about;
	(void)count;
	(void)arguments;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
