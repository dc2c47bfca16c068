/* The fake devices' memory: its size, users, fragmentation, and reported state. For tests only; see
   ../README.md.

   Allocations only reserve address space; the system provides each page when it is written. So a test can
   fill a 48 GiB card on a small machine if it writes few pages. */
#ifndef ROCENV_STANDIN_MEMORY_H
#define ROCENV_STANDIN_MEMORY_H

#define GIB ((size_t)1 << 30)
#define PAGE ((size_t)4096)
#define WHOLE_AT ((size_t)64 << 10) /* blocks of this size or larger can be filled as a whole without writing to them */
#define KEPT_BY_DISPLAY ((size_t)150 << 20)
#define MAX_DEVICES 16
#define MAX_BLOCKS 65536
#define NO_PIECE ((size_t)-1) /* a block in system memory */

struct piece {
    size_t size, used;
};

static struct memory {
    int known;
    size_t total, own, shared; /* shared: system memory available to the device */
    struct piece *pieces;
    size_t count;
} memories[MAX_DEVICES];

/* Each byte is stored as its difference from `fill`, so that unwritten pages read as `fill`. */
static struct block {
    char *start;
    size_t size, taken, piece;
    struct memory *memory;
    unsigned char fill;
} blocks[MAX_BLOCKS];

static size_t blocks_used; /* all later blocks are free */
static int ran_out;        /* an allocation failed */

static size_t size_listed(const char *name, int device, size_t otherwise) {
    char text[64];
    listed(name, "", device, text, sizeof text);
    return *text ? (size_t)amount_of(text) : otherwise;
}

static struct memory *memory_of(int device) {
    struct memory *memory = &memories[device % MAX_DEVICES];
    if (memory->known) return memory;
    memory->known = 1;
    memory->total = size_listed("ROCENV_STANDIN_MEMORY", device, 8 * GIB);
    memory->shared = size_listed("ROCENV_STANDIN_SHARED", device, 0);
    size_t others = size_listed("ROCENV_STANDIN_USED", device, memory->total / 8);
    size_t left = others < memory->total ? memory->total - others : 0;
    size_t piece = size_listed("ROCENV_STANDIN_FRAGMENT", device, left);
    if (piece < PAGE) piece = PAGE;
    memory->count = (left + piece - 1) / piece;
    memory->pieces = calloc(memory->count + 1, sizeof *memory->pieces);
    for (size_t i = 0; i < memory->count; i++) {
        memory->pieces[i].size = left < piece ? left : piece;
        left -= memory->pieces[i].size;
    }
    return memory;
}

static size_t free_of(const struct memory *memory) {
    size_t left = 0;
    for (size_t i = 0; i < memory->count; i++) left += memory->pieces[i].size - memory->pieces[i].used;
    return left;
}

/* Record allocations, across processes: the peak, the current amount, and the number of requests. */
static void note_use(size_t size_now, int is_allocation) {
    static unsigned long long most, calls;
    static int is_first = 1;
    const char *path = variable("ROCENV_STANDIN_PEAK");
    FILE *file = path && is_first ? fopen(path, "r") : NULL;
    if (file) {
        if (fscanf(file, "%llu %*u %llu", &most, &calls) != 2) most = calls = 0;
        fclose(file);
    }
    is_first = 0;
    if (size_now > most) most = size_now;
    calls += (unsigned)is_allocation;
    file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%llu %llu %llu\n", most, (unsigned long long)size_now, calls);
    fclose(file);
}

/* Return the smallest piece with enough space, or NO_PIECE. */
static size_t piece_for(const struct memory *memory, size_t size) {
    size_t best = NO_PIECE, least = (size_t)-1;
    for (size_t i = 0; i < memory->count; i++) {
        size_t room = memory->pieces[i].size - memory->pieces[i].used;
        if (room >= size && room < least) best = i, least = room;
    }
    return best;
}

static struct block *block_at(const void *pointer) {
    for (size_t i = 0; i < blocks_used; i++)
        if (blocks[i].start && (const char *)pointer >= blocks[i].start &&
            (const char *)pointer < blocks[i].start + blocks[i].size)
            return &blocks[i];
    return NULL;
}

static struct block *unused_block(void) {
    for (size_t i = 0; i < blocks_used; i++)
        if (!blocks[i].start) return &blocks[i];
    return blocks_used < MAX_BLOCKS ? &blocks[blocks_used++] : NULL;
}

/* Whether a device has space for `size` bytes. */
static int has_room(struct memory *memory, size_t size) {
    return piece_for(memory, size) != NO_PIECE || memory->shared >= size;
}

static char *take(struct memory *memory, size_t size) {
    size_t taken = ((size ? size : 1) + PAGE - 1) / PAGE * PAGE;
    if (taken < size || !has_room(memory, taken)) return NULL;
    struct block *block = unused_block();
    if (!block) return NULL;
    block->start = reserve_pages(taken);
    if (!block->start) return NULL;
    block->size = size ? size : 1;
    block->taken = taken;
    block->fill = 0;
    block->memory = memory;
    block->piece = piece_for(memory, taken);
    if (block->piece == NO_PIECE)
        memory->shared -= taken;
    else
        memory->pieces[block->piece].used += taken;
    memory->own += taken;
    note_use(memory->own, 1);
    return block->start;
}

static void give_back(struct block *block) {
    struct memory *memory = block->memory;
    if (block->piece == NO_PIECE)
        memory->shared += block->taken;
    else
        memory->pieces[block->piece].used -= block->taken;
    memory->own -= block->taken;
    release_pages(block->start, block->taken);
    block->start = NULL;
    note_use(memory->own, 0);
}

static void fill_block(struct block *block, char *start, size_t size, unsigned char value) {
    if (start == block->start && size == block->size && size >= WHOLE_AT) {
        forget_pages(block->start, block->taken);
        block->fill = value;
        return;
    }
    present_pages(start, size);
    memset(start, value ^ block->fill, size);
}

static void copy_bytes(char *to, const char *from, size_t size, unsigned char fill) {
    if (!fill) {
        memcpy(to, from, size);
        return;
    }
    for (size_t i = 0; i < size; i++) to[i] = (char)(from[i] ^ fill);
}

/* The memory that a device reports: the actual values, or the wrong ones that some real runtimes report. */
static void say(const struct memory *memory, size_t *available, size_t *total) {
    const char *how = variable("ROCENV_STANDIN_MEMINFO");
    *total = memory->total;
    *available = free_of(memory);
    if (how && !strcmp(how, "total")) *available = memory->total - KEPT_BY_DISPLAY;
    if (how && !strcmp(how, "own")) *available = memory->total > memory->own ? memory->total - memory->own : 0;
    const char *slash = how ? strchr(how, '/') : NULL;
    if (slash) {
        *available = (size_t)amount_of(how);
        *total = (size_t)amount_of(slash + 1);
    }
}

#endif
