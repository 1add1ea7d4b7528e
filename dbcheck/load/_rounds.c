/* Commits of many sessions in one call, without the interpreter; see _rounds.pyi.

   Each session whose operation is in flight here has its own connection of libpq
   (PostgreSQL 17 manual, 34.4).  An ack is what the loop in Python takes for one, no
   more: one result with the expected command tag and one id, then no other, no notice,
   and a connection that is idle again.  All else goes to the session in Python, with
   the results that were taken for it, and is judged there.

   Limited API of Python 3.11 (PEP 384), so one build serves all later versions. */

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#ifndef SOURCE
#error "setup.py gives the checksum of this file"
#endif

typedef void PGconn;
typedef void PGresult;

/* The functions of libpq, in the order of engines.postgresql.direct.NAMES. */
typedef struct {
    int (*consume_input)(PGconn *);
    int (*is_busy)(PGconn *);
    PGresult *(*get_result)(PGconn *);
    void (*clear)(PGresult *);
    int (*result_status)(const PGresult *);
    char *(*cmd_status)(PGresult *);
    char *(*error_message)(const PGresult *);
    char *(*error_field)(const PGresult *, int);
    int (*ntuples)(const PGresult *);
    int (*nfields)(const PGresult *);
    int (*get_is_null)(const PGresult *, int, int);
    int (*get_length)(const PGresult *, int, int);
    char *(*get_value)(const PGresult *, int, int);
    int (*transaction_status)(const PGconn *);
    int (*send_query_prepared)(PGconn *, const char *, int, const char *const *,
                               const int *, const int *, int);
    int (*flush)(PGconn *);
} Calls;

enum { TRANSACTION_IDLE = 0 };       /* PQTRANS_IDLE */
enum { BINARY = 1, ID_BYTES = 8 };   /* a bigint in binary: network byte order */
enum { MOST = 64, PARAMETERS_MAX = 16, ANSWERS_MAX = 2, TAG_MAX = 64 };
/* Why send() did not send all of an operation: values of _rounds.pyi. */
enum { ALL_SENT = 0, PART_SENT = 1, NOT_HERE = 2, NO_ROW = 3, REFUSED = 4 };

typedef struct {
    PGconn *connection;
    int64_t number, seq, acked, sent_us, until_us, row_id;
    int in_flight; /* an operation was sent here, and its reply is not taken */
    int noticed;   /* the server said something beside its answers */
    int taken;     /* how many results of the reply are in answers */
    PGresult *answers[ANSWERS_MAX];
    int64_t first_seq, rows; /* the operations whose values are prepared */
    int has_rows;            /* table and data are held */
    Py_buffer table, data;   /* place and length of each value; the values */
} Slot;

typedef struct {
    PyObject_HEAD
    Calls pq;
    int epoll_fd, parameters;
    int is_busy; /* the interpreter is free while the slots are used */
    char *statement;
    char tag[TAG_MAX];
    Slot **slots; /* by descriptor */
    int64_t size;
    int answered_count;
    int answered[MOST];
} Rounds;

static Slot *find(Rounds *self, int64_t fd) {
    return fd >= 0 && fd < self->size ? self->slots[fd] : NULL;
}

static void clear_answers(Rounds *self, Slot *slot) {
    while (slot->taken > 0) self->pq.clear(slot->answers[--slot->taken]);
}

static void drop_rows(Slot *slot) {
    if (slot->has_rows) {
        PyBuffer_Release(&slot->table);
        PyBuffer_Release(&slot->data);
    }
    slot->has_rows = 0;
    slot->rows = 0;
}

static void free_slot(Rounds *self, int64_t fd) {
    Slot *slot = find(self, fd);
    if (slot == NULL) return;
    clear_answers(self, slot);
    drop_rows(slot);
    self->slots[fd] = NULL;
    free(slot);
}

/* The slot of a descriptor; raises KeyError if it has none, RuntimeError if another
   thread uses the slots. */
static Slot *require(Rounds *self, int64_t fd) {
    Slot *slot = find(self, fd);
    if (self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "a round is under way");
        return NULL;
    }
    if (slot == NULL) PyErr_SetString(PyExc_KeyError, "no session has this descriptor");
    return slot;
}

/* ------------------------------------------------------------------ without the GIL */

/* Take a reply; return 1 if it is the ack, 0 if the session in Python is to judge. */
static int take(Rounds *self, Slot *slot) {
    Calls *pq = &self->pq;
    PGresult *result;
    if (!pq->consume_input(slot->connection)) return 0;
    do {
        if (pq->is_busy(slot->connection)) return 0;
        result = pq->get_result(slot->connection);
        if (result != NULL) slot->answers[slot->taken++] = result;
        if (slot->taken == ANSWERS_MAX) return 0;
    } while (result != NULL);
    if (slot->taken != 1 || slot->noticed ||
        pq->transaction_status(slot->connection) != TRANSACTION_IDLE)
        return 0;
    result = slot->answers[0];
    if (strcmp(pq->cmd_status(result), self->tag) != 0 || pq->ntuples(result) != 1 ||
        pq->nfields(result) < 1 || pq->get_is_null(result, 0, 0) ||
        pq->get_length(result, 0, 0) != ID_BYTES)
        return 0;
    const unsigned char *id = (const unsigned char *)pq->get_value(result, 0, 0);
    uint64_t number = 0;
    for (int i = 0; i < ID_BYTES; i++) number = number << 8 | id[i];
    slot->row_id = (int64_t)number;
    clear_answers(self, slot);
    slot->in_flight = 0;
    return 1;
}

static int begin(Rounds *self, Slot *slot, int64_t moment_us) {
    int64_t seq = slot->seq + 1, row = seq - slot->first_seq;
    if (slot->in_flight || slot->noticed || moment_us >= slot->until_us)
        return NOT_HERE;
    if (row < 0 || row >= slot->rows) return NO_ROW;
    const int64_t *places = (const int64_t *)slot->table.buf + row * 2 * self->parameters;
    const char *values[PARAMETERS_MAX];
    int lengths[PARAMETERS_MAX], formats[PARAMETERS_MAX];
    for (int i = 0; i < self->parameters; i++) {
        values[i] = (const char *)slot->data.buf + places[2 * i];
        lengths[i] = (int)places[2 * i + 1];
        formats[i] = BINARY;
    }
    slot->seq = seq;
    slot->sent_us = moment_us;
    slot->in_flight = 1;
    if (!self->pq.send_query_prepared(slot->connection, self->statement,
                                      self->parameters, values, lengths, formats, BINARY))
        return REFUSED;
    int left = self->pq.flush(slot->connection);
    return left == 0 ? ALL_SENT : left > 0 ? PART_SENT : REFUSED;
}

/* -------------------------------------------------------------------------- methods */

static PyObject *add(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    int fd;
    long long number;
    unsigned long long address;
    if (!PyArg_ParseTuple(args, "iKL:add", &fd, &address, &number)) return NULL;
    if (self->is_busy || fd < 0 || find(self, fd) != NULL) {
        PyErr_SetString(PyExc_ValueError, "the descriptor cannot be added");
        return NULL;
    }
    if (fd >= self->size) {
        int64_t size = 2 * (int64_t)fd + 64;
        Slot **slots = realloc(self->slots, (size_t)size * sizeof(Slot *));
        if (slots == NULL) return PyErr_NoMemory();
        memset(slots + self->size, 0, (size_t)(size - self->size) * sizeof(Slot *));
        self->slots = slots;
        self->size = size;
    }
    Slot *slot = calloc(1, sizeof(Slot));
    if (slot == NULL) return PyErr_NoMemory();
    slot->connection = (PGconn *)(uintptr_t)address;
    slot->number = number;
    self->slots[fd] = slot;
    Py_RETURN_NONE;
}

static PyObject *remove_(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    int fd;
    if (!PyArg_ParseTuple(args, "i:remove", &fd) || require(self, fd) == NULL)
        return NULL;
    free_slot(self, fd);
    Py_RETURN_NONE;
}

static PyObject *proceed(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    int fd;
    long long seq, until_us;
    Slot *slot;
    if (!PyArg_ParseTuple(args, "iLL:proceed", &fd, &seq, &until_us) ||
        (slot = require(self, fd)) == NULL)
        return NULL;
    clear_answers(self, slot);
    slot->in_flight = slot->noticed = 0;
    slot->seq = slot->acked = seq;
    slot->until_us = until_us;
    Py_RETURN_NONE;
}

static PyObject *notice(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    int fd;
    if (!PyArg_ParseTuple(args, "i:notice", &fd)) return NULL;
    Slot *slot = find(self, fd); /* also from within a round, in the same thread */
    if (slot != NULL) slot->noticed = 1;
    Py_RETURN_NONE;
}

static PyObject *describe_progress(Slot *slot) {
    return Py_BuildValue("(LLLN)", (long long)slot->seq, (long long)slot->acked,
                         (long long)slot->sent_us, PyBool_FromLong(slot->in_flight));
}

static PyObject *progress(PyObject *object, PyObject *args) {
    int fd;
    Slot *slot;
    if (!PyArg_ParseTuple(args, "i:progress", &fd) ||
        (slot = require((Rounds *)object, fd)) == NULL)
        return NULL;
    return describe_progress(slot);
}

static PyObject *withdraw(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    int fd;
    Slot *slot;
    if (!PyArg_ParseTuple(args, "i:withdraw", &fd) ||
        (slot = require(self, fd)) == NULL)
        return NULL;
    PyObject *found = describe_progress(slot);
    clear_answers(self, slot);
    slot->in_flight = 0;
    slot->until_us = INT64_MIN;
    return found;
}

static PyObject *prepare(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    int fd;
    long long first_seq;
    Py_buffer table, data;
    if (!PyArg_ParseTuple(args, "iLy*y*:prepare", &fd, &first_seq, &table, &data))
        return NULL;
    Slot *slot = require(self, fd);
    int64_t values = (int64_t)(table.len / (Py_ssize_t)(2 * sizeof(int64_t)));
    const int64_t *places = table.buf;
    int fits = slot != NULL && self->parameters > 0 &&
               (uintptr_t)places % sizeof(int64_t) == 0 &&
               values * 2 * (int64_t)sizeof(int64_t) == table.len &&
               values % self->parameters == 0;
    for (int64_t i = 0; fits && i < values; i++)
        fits = places[2 * i] >= 0 && places[2 * i + 1] >= 0 &&
               places[2 * i + 1] <= INT32_MAX && places[2 * i] <= data.len &&
               places[2 * i + 1] <= data.len - places[2 * i];
    if (!fits) {
        if (slot != NULL) PyErr_SetString(PyExc_ValueError, "no values of whole rows");
        PyBuffer_Release(&table);
        PyBuffer_Release(&data);
        return NULL;
    }
    drop_rows(slot);
    slot->table = table;
    slot->data = data;
    slot->has_rows = 1;
    slot->first_seq = first_seq;
    slot->rows = values / self->parameters;
    Py_RETURN_NONE;
}

/* A result as (status, command tag, first value or None, message, fields). */
static PyObject *describe(Rounds *self, PGresult *result) {
    static const char codes[] = "SVCMDHPpqWstcdnFLR"; /* PG_DIAG_ of libpq */
    Calls *pq = &self->pq;
    PyObject *fields = PyDict_New();
    if (fields == NULL) return NULL;
    for (const char *code = codes; *code; code++) {
        const char *text = pq->error_field(result, *code);
        if (text == NULL) continue;
        PyObject *key = PyLong_FromLong(*code), *value = PyBytes_FromString(text);
        int failed = key == NULL || value == NULL || PyDict_SetItem(fields, key, value);
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (failed) {
            Py_DECREF(fields);
            return NULL;
        }
    }
    const char *value = NULL;
    Py_ssize_t length = 0;
    if (pq->ntuples(result) > 0 && pq->nfields(result) > 0 &&
        !pq->get_is_null(result, 0, 0)) {
        value = pq->get_value(result, 0, 0);
        length = pq->get_length(result, 0, 0);
    }
    return Py_BuildValue("(iyy#yN)", pq->result_status(result), pq->cmd_status(result),
                         value, length, pq->error_message(result), fields);
}

/* What the session in Python is to judge: the results that were taken for it. */
static PyObject *hand_over(Rounds *self, Slot *slot) {
    PyObject *answers = PyList_New(0);
    for (int i = 0; answers != NULL && i < slot->taken; i++) {
        PyObject *answer = describe(self, slot->answers[i]);
        if (answer == NULL || PyList_Append(answers, answer)) Py_CLEAR(answers);
        Py_XDECREF(answer);
    }
    clear_answers(self, slot);
    return answers;
}

static PyObject *receive(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    double timeout_s;
    struct epoll_event events[MOST];
    int acked[MOST], ready, error;
    if (!PyArg_ParseTuple(args, "d:receive", &timeout_s)) return NULL;
    if (self->is_busy) {
        PyErr_SetString(PyExc_RuntimeError, "a round is under way");
        return NULL;
    }
    int timeout_ms = timeout_s > 0 ? (int)(timeout_s * 1000 + 0.999) : 0;
    self->answered_count = 0;
    self->is_busy = 1;
    Py_BEGIN_ALLOW_THREADS
    ready = epoll_wait(self->epoll_fd, events, MOST, timeout_ms);
    error = errno;
    for (int i = 0; i < ready; i++) {
        Slot *slot = find(self, events[i].data.fd);
        acked[i] = slot != NULL && slot->in_flight && events[i].events == EPOLLIN &&
                   take(self, slot);
    }
    Py_END_ALLOW_THREADS
    self->is_busy = 0;
    if (ready < 0 && error != EINTR) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    PyObject *fds = PyList_New(0), *others = PyList_New(0), *found = NULL;
    int failed = fds == NULL || others == NULL;
    for (int i = 0; !failed && i < ready; i++) {
        int fd = events[i].data.fd;
        Slot *slot = find(self, fd);
        PyObject *item;
        if (acked[i]) {
            self->answered[self->answered_count++] = fd;
            item = PyLong_FromLong(fd);
        } else if (slot != NULL && slot->in_flight) {
            PyObject *answers = hand_over(self, slot);
            item = answers == NULL
                       ? NULL
                       : Py_BuildValue("(iIN)", fd, events[i].events, answers);
        } else {
            item = Py_BuildValue("(iIO)", fd, events[i].events, Py_None);
        }
        failed = item == NULL || PyList_Append(acked[i] ? fds : others, item);
        Py_XDECREF(item);
    }
    if (!failed) found = Py_BuildValue("(OO)", fds, others);
    Py_XDECREF(fds);
    Py_XDECREF(others);
    return found;
}

/* Py_BuildValue() takes twice as long, and this is done for each commit. */
static PyObject *make_ack(Slot *slot, long long moment_us) {
    long long values[4] = {slot->number, slot->seq, slot->row_id, moment_us};
    PyObject *ack = PyTuple_New(4);
    for (int i = 0; ack != NULL && i < 4; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL || PyTuple_SetItem(ack, i, value)) Py_CLEAR(ack);
    }
    return ack;
}

static PyObject *acknowledge(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    long long moment_us;
    if (!PyArg_ParseTuple(args, "L:acknowledge", &moment_us)) return NULL;
    int64_t newest_us = 0;
    int failed = 0;
    PyObject *acks = PyList_New(0), *durations = PyList_New(0), *found = NULL;
    failed = acks == NULL || durations == NULL;
    for (int i = 0; !failed && i < self->answered_count; i++) {
        Slot *slot = require(self, self->answered[i]);
        if (slot == NULL) {
            failed = 1;
            break;
        }
        slot->acked = slot->seq;
        if (slot->sent_us > newest_us) newest_us = slot->sent_us;
        PyObject *ack = make_ack(slot, moment_us);
        PyObject *duration = PyLong_FromLongLong(moment_us - slot->sent_us);
        failed = ack == NULL || duration == NULL || PyList_Append(acks, ack) ||
                 PyList_Append(durations, duration);
        Py_XDECREF(ack);
        Py_XDECREF(duration);
    }
    self->answered_count = 0;
    if (!failed) found = Py_BuildValue("(OOL)", acks, durations, (long long)newest_us);
    Py_XDECREF(acks);
    Py_XDECREF(durations);
    return found;
}

static PyObject *send_(PyObject *object, PyObject *args) {
    Rounds *self = (Rounds *)object;
    PyObject *fds;
    long long moment_us;
    if (!PyArg_ParseTuple(args, "O!L:send", &PyList_Type, &fds, &moment_us)) return NULL;
    PyObject *left = PyList_New(0);
    Py_ssize_t count = PyList_Size(fds);
    for (Py_ssize_t begun = 0; left != NULL && begun < count;) {
        Slot *slots[MOST];
        int numbers[MOST], how[MOST], n = 0;
        for (; n < MOST && begun < count; n++, begun++) {
            numbers[n] = (int)PyLong_AsLong(PyList_GetItem(fds, begun));
            if (PyErr_Occurred() || (slots[n] = require(self, numbers[n])) == NULL) {
                Py_DECREF(left);
                return NULL;
            }
        }
        self->is_busy = 1;
        Py_BEGIN_ALLOW_THREADS
        for (int i = 0; i < n; i++) how[i] = begin(self, slots[i], moment_us);
        Py_END_ALLOW_THREADS
        self->is_busy = 0;
        for (int i = 0; left != NULL && i < n; i++) {
            if (how[i] == ALL_SENT) continue;
            PyObject *item = Py_BuildValue("(ii)", numbers[i], how[i]);
            if (item == NULL || PyList_Append(left, item)) Py_CLEAR(left);
            Py_XDECREF(item);
        }
    }
    return left;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *kwds) {
    Py_buffer calls;
    const char *statement, *tag;
    int epoll_fd, parameters;
    (void)kwds;
    if (!PyArg_ParseTuple(args, "iy*yyi:Rounds", &epoll_fd, &calls, &statement, &tag,
                          &parameters))
        return NULL;
    Calls pq;
    int fits = calls.len == (Py_ssize_t)sizeof(pq) && strlen(tag) < TAG_MAX &&
               parameters > 0 && parameters <= PARAMETERS_MAX;
    if (fits) memcpy(&pq, calls.buf, sizeof(pq));
    PyBuffer_Release(&calls);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "this statement cannot be sent here");
        return NULL;
    }
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Rounds *self = (Rounds *)alloc(type, 0);
    if (self == NULL) return NULL;
    self->pq = pq;
    self->epoll_fd = epoll_fd;
    self->parameters = parameters;
    strcpy(self->tag, tag);
    self->statement = malloc(strlen(statement) + 1);
    if (self->statement == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    strcpy(self->statement, statement);
    return (PyObject *)self;
}

static void dealloc(PyObject *object) {
    Rounds *self = (Rounds *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (int64_t fd = 0; fd < self->size; fd++) free_slot(self, fd);
    free(self->slots);
    free(self->statement);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"add", add, METH_VARARGS, NULL},
    {"remove", remove_, METH_VARARGS, NULL},
    {"proceed", proceed, METH_VARARGS, NULL},
    {"notice", notice, METH_VARARGS, NULL},
    {"progress", progress, METH_VARARGS, NULL},
    {"withdraw", withdraw, METH_VARARGS, NULL},
    {"prepare", prepare, METH_VARARGS, NULL},
    {"receive", receive, METH_VARARGS, NULL},
    {"acknowledge", acknowledge, METH_VARARGS, NULL},
    {"send", send_, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot type_slots[] = {
    {Py_tp_new, make},
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec type_spec = {
    .name = "dbcheck.load._rounds.Rounds",
    .basicsize = sizeof(Rounds),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = type_slots,
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "dbcheck.load._rounds", .m_size = -1};

static int set_number(PyObject *type, const char *name, int value) {
    PyObject *number = PyLong_FromLong(value);
    int failed = number == NULL || PyObject_SetAttrString(type, name, number);
    Py_XDECREF(number);
    return failed;
}

PyMODINIT_FUNC PyInit__rounds(void) {
    PyObject *module = PyModule_Create(&definition);
    PyObject *type = module == NULL ? NULL : PyType_FromSpec(&type_spec);
    if (type == NULL || set_number(type, "PART_SENT", PART_SENT) ||
        set_number(type, "NOT_HERE", NOT_HERE) || set_number(type, "NO_ROW", NO_ROW) ||
        set_number(type, "REFUSED", REFUSED) || set_number(type, "SOURCE", SOURCE) ||
        PyModule_AddObject(module, "Rounds", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
