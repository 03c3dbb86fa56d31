/*
 * pg_trace.h of a build that was made with octavo build --traced, in place of PostgreSQL's own, which is as empty
 * where probes are not compiled in. What the probes of bufmgr.c would tell is appended to a file of each backend, as
 * long as somebody records (docs/trace.md, "A tracing build").
 *
 * octavo_trace/control in the data directory has three numbers of 64 bits, which whoever records writes: until when to
 * record (nanoseconds of CLOCK_MONOTONIC), the number of the recording, and whether the file is to be let go of. A
 * backend's records are in octavo_trace/NUMBER.PID.TIME; NUMBER.failed says that one could not go on.
 */
#ifndef PG_TRACE_H
#define PG_TRACE_H

#include "utils/probes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "storage/bufmgr.h"

#define OCTAVO_ONCE __attribute__((weak, visibility("hidden")))

/* What octavo trace looks for in the program. */
OCTAVO_ONCE __attribute__((used)) const char octavo_traced[] = "octavo traced build 2";

/* Kinds of records: those of accesses in docs/trace-format.md, and our own. */
#define OCTAVO_READ 0
#define OCTAVO_EXTEND 1
#define OCTAVO_CHANGE 2
#define OCTAVO_PIN 4			/* read by a backend that has the page pinned already */
#define OCTAVO_CHECKPOINT 16	/* block: 0 it begins, 1 it ends; time */
#define OCTAVO_WRITTEN 17		/* block: how many buffers the checkpoint wrote; time */
#define OCTAVO_STREAM 32		/* block: tablespace; time: database, relation */

typedef struct
{
	uint32		block;
	uint32		what;			/* kind 8 bits, strategy 4, fork 2, stream 18 */
	uint64		time;			/* written last, never 0 */
} OctavoRecord;

#define OCTAVO_WINDOW (1024 * 1024)
#define OCTAVO_KNOWN 1024
#define OCTAVO_STREAMS (1u << 18)
#define OCTAVO_PATIENCE 1024

typedef struct
{
	uint32		space;
	uint32		database;
	uint32		relation;
	uint32		number;
} OctavoStream;

typedef struct
{
	const volatile uint64 *control;
	uint64		recording;
	OctavoRecord *window;
	uint32		used;			/* records of the window */
	int			file;			/* + 1 */
	off_t		size;
	uint32		streams;
	uint32		patience;
	OctavoStream known[OCTAVO_KNOWN];
} OctavoState;

OCTAVO_ONCE OctavoState octavo_state;

/* Looks now and then whether somebody records. */
static inline bool
octavo_attach(void)
{
	int			error = errno;
	int			file;
	struct stat found;
	void	   *control = MAP_FAILED;

	if (octavo_state.patience > 0)
	{
		octavo_state.patience--;
		return false;
	}
	octavo_state.patience = OCTAVO_PATIENCE;
	file = open("octavo_trace/control", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (file >= 0)
	{
		if (fstat(file, &found) == 0 && found.st_size >= 24)
			control = mmap(NULL, 24, PROT_READ, MAP_SHARED, file, 0);
		close(file);
	}
	if (control != MAP_FAILED)
		octavo_state.control = control;
	errno = error;
	return control != MAP_FAILED;
}

static inline void
octavo_let_go(void)
{
	if (octavo_state.window != NULL)
		munmap(octavo_state.window, OCTAVO_WINDOW);
	if (octavo_state.file > 0)
		close(octavo_state.file - 1);
	octavo_state.window = NULL;
	octavo_state.file = 0;
	octavo_state.used = 0;
	octavo_state.size = 0;
}

static inline void
octavo_detach(void)
{
	int			error = errno;

	octavo_let_go();
	munmap(unconstify(uint64 *, (const uint64 *) octavo_state.control), 24);
	octavo_state.control = NULL;
	octavo_state.recording = 0;
	errno = error;
}

/* Nothing more of this recording, and a sign of it. */
static inline void
octavo_fail(void)
{
	char		name[64];
	int			file;

	if (octavo_state.file > 0)
		close(octavo_state.file - 1);
	octavo_state.file = 0;
	snprintf(name, sizeof(name), "octavo_trace/%llu.failed", (unsigned long long) octavo_state.recording);
	file = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file >= 0)
		close(file);
}

/* A file for a new recording. */
static inline void
octavo_begin(uint64 recording, uint64 time)
{
	int			error = errno;
	char		name[96];

	octavo_let_go();
	octavo_state.recording = recording;
	octavo_state.streams = 0;
	memset(octavo_state.known, 0, sizeof(octavo_state.known));
	snprintf(name, sizeof(name), "octavo_trace/%llu.%d.%llu", (unsigned long long) recording, (int) getpid(),
			 (unsigned long long) time);
	octavo_state.file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) + 1;
	if (octavo_state.file == 0)
		octavo_fail();
	errno = error;
}

/* The next part of the file. Its blocks are allocated first: a full disk is an error here, and no signal later. */
static inline bool
octavo_grow(void)
{
	int			error = errno;
	void	   *window = MAP_FAILED;

	if (octavo_state.window != NULL)
		munmap(octavo_state.window, OCTAVO_WINDOW);
	octavo_state.window = NULL;
	if (octavo_state.file > 0 && posix_fallocate(octavo_state.file - 1, octavo_state.size, OCTAVO_WINDOW) == 0)
		window = mmap(NULL, OCTAVO_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, octavo_state.file - 1,
					  octavo_state.size);
	if (window == MAP_FAILED)
		octavo_fail();
	errno = error;
	if (window == MAP_FAILED)
		return false;
	octavo_state.size += OCTAVO_WINDOW;
	octavo_state.window = window;
	octavo_state.used = 0;
	return true;
}

static inline void
octavo_append(uint32 block, uint32 what, uint64 time)
{
	OctavoRecord *record;

	if (octavo_state.window == NULL || octavo_state.used == OCTAVO_WINDOW / sizeof(OctavoRecord))
	{
		if (octavo_state.file == 0 || !octavo_grow())
			return;
	}
	record = &octavo_state.window[octavo_state.used++];
	record->block = block;
	record->what = what;
	__atomic_store_n(&record->time, time, __ATOMIC_RELEASE);
}

/* A number for the relation; it is written when it is given. */
static inline uint32
octavo_stream(uint32 space, uint32 database, uint32 relation)
{
	OctavoStream *known = &octavo_state.known[(relation ^ (relation >> 10) ^ database) % OCTAVO_KNOWN];

	if (known->relation != relation || known->database != database || known->space != space)
	{
		known->space = space;
		known->database = database;
		known->relation = relation;
		known->number = octavo_state.streams++ % OCTAVO_STREAMS;
		octavo_append(space, (uint32) OCTAVO_STREAM << 24 | known->number, (uint64) database << 32 | relation);
	}
	return known->number;
}

/* The time when somebody records, else 0. */
static inline uint64
octavo_time(void)
{
	struct timespec now;
	uint64		time;

	if (octavo_state.control == NULL && !octavo_attach())
		return 0;
	if (octavo_state.control[2] != 0)
	{
		octavo_detach();
		return 0;
	}
	if (octavo_state.control[0] == 0)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &now);
	time = (uint64) now.tv_sec * 1000000000 + now.tv_nsec;
	if (time > octavo_state.control[0])
		return 0;
	if (octavo_state.recording != octavo_state.control[1])
		octavo_begin(octavo_state.control[1], time);
	return time;
}

static inline void
octavo_access(uint32 kind, uint32 strategy, int fork, uint32 block, uint32 count, uint32 space, uint32 database,
			  uint32 relation)
{
	uint64		time = octavo_time();
	uint32		what;

	if (time == 0)
		return;
	what = kind << 24 | strategy << 20 | (uint32) fork << 18 | octavo_stream(space, database, relation);
	for (uint32 each = 0; each < count; each++)
		octavo_append(block + each, what, time);
}

static inline void
octavo_checkpoint(uint32 kind, uint32 number)
{
	uint64		time;

	octavo_state.patience = 0;	/* a checkpointer accesses too little to look by itself */
	time = octavo_time();
	if (time != 0)
		octavo_append(number, kind << 24, time);
}

static inline bool
octavo_is_watched(void)
{
	return octavo_state.control != NULL || octavo_attach();
}

/* The numbers of docs/trace-format.md; `strategy` is what both functions with these probes call it. */
#define octavo_strategy(context) \
	((context) == IOCONTEXT_BULKREAD ? 1 : (context) == IOCONTEXT_BULKWRITE ? 2 : (context) == IOCONTEXT_VACUUM ? 3 : 0)

/* A backend of a temporary relation is not INVALID_PROC_NUMBER, -1; its buffers are not shared. */
#define octavo_accesses(kind, fork, block, count, space, database, relation, backend) \
	do { \
		if ((backend) == -1 && octavo_is_watched()) \
		{ \
			int			octavo_context = IOContextForStrategy(strategy); \
			octavo_access(kind, octavo_strategy(octavo_context), fork, block, count, space, database, relation); \
		} \
	} while (0)

/*
 * Whether this backend has a page pinned: another pin of it is no further use (PinBuffer). Of what bufmgr.c keeps to
 * itself, where this is expanded; of more than eight pages that are pinned at once only the eight latest are known.
 */
#define octavo_looks_up(fork_, block_, space, database, relation, backend) \
	do { \
		if ((backend) == -1 && octavo_is_watched()) \
		{ \
			uint32		octavo_kind = OCTAVO_READ; \
			for (int octavo_each = 0; octavo_each < REFCOUNT_ARRAY_ENTRIES; octavo_each++) \
			{ \
				Buffer		octavo_buffer = PrivateRefCountArray[octavo_each].buffer; \
				if (octavo_buffer != InvalidBuffer) \
				{ \
					const BufferTag *octavo_tag = &GetBufferDescriptor(octavo_buffer - 1)->tag; \
					if (octavo_tag->blockNum == (block_) && BufTagGetRelNumber(octavo_tag) == (relation) && \
						BufTagGetForkNum(octavo_tag) == (fork_) && octavo_tag->dbOid == (database) && \
						octavo_tag->spcOid == (space)) \
						octavo_kind = OCTAVO_PIN; \
				} \
			} \
			octavo_accesses(octavo_kind, fork_, block_, 1, space, database, relation, backend); \
		} \
	} while (0)

#undef TRACE_POSTGRESQL_BUFFER_READ_START
#define TRACE_POSTGRESQL_BUFFER_READ_START(fork, block, space, database, relation, backend) \
	octavo_looks_up(fork, block, space, database, relation, backend)

#undef TRACE_POSTGRESQL_BUFFER_EXTEND_DONE
#define TRACE_POSTGRESQL_BUFFER_EXTEND_DONE(fork, space, database, relation, backend, count, first) \
	octavo_accesses(OCTAVO_EXTEND, fork, first, count, space, database, relation, backend)

#undef TRACE_POSTGRESQL_BUFFER_SYNC_START
#define TRACE_POSTGRESQL_BUFFER_SYNC_START(buffers, dirty) octavo_checkpoint(OCTAVO_CHECKPOINT, 0)

#undef TRACE_POSTGRESQL_BUFFER_SYNC_DONE
#define TRACE_POSTGRESQL_BUFFER_SYNC_DONE(buffers, written, dirty) octavo_checkpoint(OCTAVO_WRITTEN, written)

/* The linker leads calls from other files here (--wrap). */
extern void __real_MarkBufferDirty(Buffer buffer);
extern void __real_MarkBufferDirtyHint(Buffer buffer, bool buffer_std);
extern PGDLLEXPORT void __wrap_MarkBufferDirty(Buffer buffer);
extern PGDLLEXPORT void __wrap_MarkBufferDirtyHint(Buffer buffer, bool buffer_std);

static inline void
octavo_change(Buffer buffer)
{
	RelFileLocator locator;
	ForkNumber	fork;
	BlockNumber block;

	if (buffer > 0 && octavo_is_watched())
	{
		BufferGetTag(buffer, &locator, &fork, &block);
		octavo_access(OCTAVO_CHANGE, 0, fork, block, 1, locator.spcOid, locator.dbOid, locator.relNumber);
	}
}

__attribute__((weak)) PGDLLEXPORT void
__wrap_MarkBufferDirty(Buffer buffer)
{
	__real_MarkBufferDirty(buffer);
	octavo_change(buffer);
}

__attribute__((weak)) PGDLLEXPORT void
__wrap_MarkBufferDirtyHint(Buffer buffer, bool buffer_std)
{
	__real_MarkBufferDirtyHint(buffer, buffer_std);
	octavo_change(buffer);
}

#endif							/* PG_TRACE_H */
