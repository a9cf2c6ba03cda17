#include <cstdio>
#include <cstring>

int backends();

int main(int argc, char ** argv) {
    if (argc > 1 && std::strcmp(argv[1], "--list-devices") == 0) {
        std::printf("Available devices:\n");
        return 0;
    }
    std::printf("version: %d (%s)\n", NUMBER * backends(), COMMIT);
    return 0;
}
